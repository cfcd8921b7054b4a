"""`Schedule`: all that happens to one engine, as a value: its settings, who asks what, and when.

Steps are the only clock. A schedule prints as the Python that makes it, and `make_schedule` makes
the same one from the same seed. Knows no engine and what no answer is.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from radixchat.engine.sampling_params import SamplingParams

# What an `Ask` chooses from; the first is the plain one.
SAMPLINGS = (
    SamplingParams(temperature=0),
    SamplingParams(temperature=0.8),
    SamplingParams(temperature=3.0, top_k=20, top_p=0.9),
    SamplingParams(temperature=0, repetition_penalty=1.3),
    SamplingParams(temperature=0, dry_multiplier=2.0, dry_allowed_length=1),
    SamplingParams(
        temperature=1.5, frequency_penalty=0.5, presence_penalty=0.5, min_p=0.02, typical_p=0.95
    ),
    SamplingParams(temperature=0, bad_words=((7,), (11, 30)), logit_bias=((40, 4.0), (7, 9.0))),
)
# Likewise; kind and value of a response format. Some have forced tokens, all end within MAX_ANSWER.
GRAMMARS = (
    ("regex", "[a-c]{2}-forced-[0-9]"),
    ("choice", '["yes, of course", "yes", "no"]'),
    ("json_schema", '{"properties": {"a": {"type": "boolean"}}, "required": ["a"]}'),
)
NUM_PROMPTS, NUM_TURNS, NUM_SEEDS = 9, 3, 2
TENANTS = (b"", b"one", b"two")
MAX_ANSWER = 14


@dataclass(frozen=True, slots=True)
class Below:
    """What is below the pool. host_pages: of memory, at least one.

    store: None, or how likely each trouble with it is, at every call. kept: whether it has pages
    of the prompts when the schedule begins. gate, write_policy: as in EngineConfig.
    """

    host_pages: int = 16
    store: float | None = None
    kept: bool = False
    gate: str = "always"
    write_policy: str = "write_through_selective"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the engine is made with; as in EngineConfig."""

    page_size: int = 4
    pool_tokens: int = 256
    prefix_cache: bool = True
    eviction: str = "lru"
    max_running: int = 4
    max_step_tokens: int = 16
    max_mixed_tokens: int = 16
    max_waiting: int = 20
    schedule: str = "lpm"
    max_overtaken: int = 4
    max_draft_tokens: int = 4


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, or `num_samples` siblings over one prompt, and what becomes of it.

    step: before which it is submitted. prompt, turn: which of the prompts, and how many answers
    of the conversation it already holds. sampling: of SAMPLINGS. branch: what its lookup is
    given as the branch that was left: "" nothing, "same" the greedy answer itself, "near" one
    that goes wrong here and there; None: it does not speculate. stop_string, stop_token: after
    how many tokens of its own plain answer to find one to stop at. logprobs: of the prompt, too.
    grammar: of GRAMMARS; its ends are then the only stop tokens, and its bias is none.
    deadline, cancel: so many steps after its submission; cancel_all: not the first sibling alone.
    """

    step: int = 0
    prompt: int = 0
    turn: int = 0
    max_tokens: int = MAX_ANSWER
    sampling: int = 0
    seed: int = 0
    num_samples: int = 1
    tenant: int = 0
    priority: int = 0
    branch: str | None = None
    shows_text: bool = False
    stop_string: int | None = None
    stop_token: int | None = None
    min_tokens: int = 0
    logprobs: bool = False
    grammar: int | None = None
    deadline: int | None = None
    cancel: int | None = None
    cancel_all: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """Settings and asks; asks of one step are submitted in their order. below: tiers, if any."""

    settings: Settings = field(default_factory=Settings)
    asks: tuple[Ask, ...] = ()
    below: Below | None = None


def make_schedule(seed: int) -> Schedule:
    """A random schedule: many small ones with much that can go wrong at the same moment."""
    rng = random.Random(seed)
    settings = _settings(rng)
    kind = rng.random()
    if kind < 0.1:
        return _stream_of_hits(rng, settings)
    if kind < 0.2:
        return _urgent_ones(rng, settings)
    asks = [_ask(rng, rng.choice((1, 6, 16))) for _ in range(rng.choice((1, 2, 3, 4, 5, 7, 9)))]
    if rng.random() < 0.3:  # a crowd with one prompt
        prompt, turn = rng.randrange(NUM_PROMPTS), rng.randrange(NUM_TURNS)
        asks += [_ask(rng, 3, prompt, turn) for _ in range(rng.randrange(2, 5))]
    return Schedule(settings, tuple(sorted(asks, key=lambda ask: ask.step)))


def with_tiers(seed: int) -> Schedule:
    """The same as `make_schedule`, in a smaller pool, with something below it."""
    schedule, rng = make_schedule(seed), random.Random(f"tiers {seed}")
    below = Below(
        host_pages=rng.choice((2, 16, 64, 128)),
        store=rng.choice((None, 0.0, 0.1, 0.5, 0.5)),
        kept=rng.random() < 0.7,
        gate=rng.choice(("always", "always", "always", "always", "measured", "never")),
        write_policy=rng.choice(("write_back", "write_through_selective")),
    )
    settings = replace(
        schedule.settings,
        prefix_cache=True,
        page_size=rng.choice((1, 2, 4, 8)),
        pool_tokens=rng.choice((80, 96, 128)),
    )
    return Schedule(settings, schedule.asks, below)


def make_soak(seed: int, num_asks: int) -> Schedule:
    """Asks without a pause, for one engine in a tight pool; its queue fills and empties."""
    rng = random.Random(seed)
    settings = Settings(pool_tokens=192, max_running=6, max_step_tokens=24, max_mixed_tokens=12)
    asks = [replace(_ask(rng, 1), step=rng.randrange(2 * num_asks)) for _ in range(num_asks)]
    return Schedule(settings, tuple(sorted(asks, key=lambda ask: ask.step)))


def _stream_of_hits(rng: random.Random, settings: Settings) -> Schedule:
    """One at a time, and one without a hit among many that have one."""
    settings = replace(
        settings,
        prefix_cache=True,
        pool_tokens=rng.choice((96, 128)),
        max_running=1,
        max_waiting=30,
        schedule="lpm",
        max_overtaken=rng.choice((1, 2)),
    )
    patient = Ask(step=3, prompt=8, max_tokens=2)
    stream = (
        Ask(step=step, prompt=rng.choice((0, 1, 2, 7)), max_tokens=rng.randrange(1, 4))
        for step in range(12)
    )
    return Schedule(settings, tuple(sorted((patient, *stream), key=lambda ask: ask.step)))


def _urgent_ones(rng: random.Random, settings: Settings) -> Schedule:
    """Answers that fill the pool, and those that take it from them, all with one beginning."""
    settings = replace(
        settings,
        pool_tokens=rng.randrange(80, 140),
        max_running=rng.choice((3, 4)),
        max_step_tokens=64,
        max_mixed_tokens=rng.choice((16, 64)),
        max_waiting=30,
    )
    calm = [Ask(step=rng.randrange(3), prompt=rng.choice((0, 7, 7, 3))) for _ in range(3)]
    urgent = [
        Ask(
            step=rng.randrange(5, 14),
            prompt=rng.choice((0, 1, 2, 3)),
            max_tokens=rng.randrange(1, 6),
            priority=rng.choice((1, 1, 2)),
            branch=rng.choice((None, "same", "near")),
        )
        for _ in range(rng.randrange(1, 4))
    ]
    return Schedule(settings, tuple(sorted((*calm, *urgent), key=lambda ask: ask.step)))


def _settings(rng: random.Random) -> Settings:
    max_running = rng.choice((1, 2, 3, 4, 8))
    budgets = [n for n in (2, 8, 12, 24, 24, 64) if n >= max_running]
    return Settings(
        page_size=rng.choice((1, 2, 4, 8, 16)),
        pool_tokens=rng.choice((48, 64, 80, 96, 128, 192, 512)),
        prefix_cache=rng.random() < 0.9,
        eviction=rng.choice(("lru", "chat")),
        max_running=max_running,
        max_step_tokens=rng.choice(budgets),
        max_mixed_tokens=rng.choice(budgets),
        max_waiting=rng.choice((2, 4, 8, 30)),
        schedule=rng.choice(("lpm", "lpm", "fcfs")),
        max_overtaken=rng.choice((1, 2, 4, 32)),
        max_draft_tokens=rng.choice((0, 1, 3, 8)),
    )


def _ask(
    rng: random.Random, num_steps: int, prompt: int | None = None, turn: int | None = None
) -> Ask:
    def sometimes(probability: float, value: int) -> int | None:
        return value if rng.random() < probability else None

    shows_text = rng.random() < 0.5
    return Ask(
        step=rng.randrange(num_steps),
        prompt=rng.randrange(NUM_PROMPTS) if prompt is None else prompt,
        turn=rng.randrange(NUM_TURNS) if turn is None else turn,
        max_tokens=rng.randrange(1, MAX_ANSWER + 1),
        sampling=rng.choice((0, 0, *range(len(SAMPLINGS)))),
        seed=rng.randrange(NUM_SEEDS),
        num_samples=rng.choice((1, 1, 1, 1, 2, 3, 4)),
        tenant=rng.choice((0, 0, 0, 1, 2)),
        priority=rng.choice((0, 0, 0, 1, -1)),
        branch=rng.choice((None, "", "same", "near")),
        shows_text=shows_text,
        stop_string=sometimes(0.3, rng.randrange(MAX_ANSWER)) if shows_text else None,
        stop_token=sometimes(0.2, rng.randrange(MAX_ANSWER)),
        min_tokens=rng.choice((0, 0, 0, 3)),
        logprobs=rng.random() < 0.1,
        grammar=sometimes(0.15, rng.randrange(len(GRAMMARS))),
        deadline=sometimes(0.15, rng.randrange(20)),
        cancel=sometimes(0.2, rng.randrange(20)),
        cancel_all=rng.random() < 0.5,
    )
