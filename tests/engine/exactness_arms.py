"""The ways to come to the same K, V and logits: every arm computes known prefixes in its own way.

An arm notes what it computes in its subject's ledger, asserts that it did what it is named for,
and leaves the verdict to whoever reads the ledger: for the control it must be another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from radixchat.engine.config import EnginePlan
from radixchat.engine.prompt_lookup import PromptLookup
from radixchat.engine.request import Request
from radixchat.engine.tiers.memory_store import MemoryStore
from radixchat.engine.tiers.page_store import PageStore
from radixchat.tests.engine.driver import answer, greedy, run
from radixchat.tests.engine.exactness import Subject, cached

# Of a length and a seed; of two lengths with one seed one begins with the other.
MakePrompt = Callable[[int, int], list[int]]


def whole_chunks(subject: Subject, tokens: Sequence[int], sizes: Sequence[int]) -> None:
    """Cold, in chunks of so many tokens; fewer where attention costs more."""
    for size in sizes:
        engine = subject.engine(max_step_tokens=size, max_running=1)
        outcome = answer(engine, tokens, greedy(1))
        assert cached(outcome) == 0
        assert engine.scheduler.stats.steps >= -(-len(tokens) // size)
        subject.note_stored(engine, tokens)


def warm(subject: Subject, tokens: Sequence[int], page_size: int, hits: Sequence[int]) -> None:
    """The rest of the prompt after a hit of so many tokens, which another request left."""
    engine = subject.engine(page_size=page_size, pool_tokens=8192)
    for hit in hits:
        namespace = b"%d" % hit
        for length, expected in ((hit, 0), (len(tokens), min(hit, len(tokens) - 1))):
            request = Request(0, list(tokens[:length]), greedy(1), namespace=namespace)
            assert cached(run(engine, [request])[0]) == expected
        subject.note_stored(engine, tokens, namespace)


def built_by_decoding(subject: Subject, prompt: Sequence[int], num_tokens: int) -> list[int]:
    """An answer token by token; then all of it at once, as the next turn of it has it."""
    engine = subject.engine(max_draft_tokens=0)
    output = answer(engine, prompt, greedy(num_tokens)).tokens
    assert len(output) == num_tokens
    assert engine.scheduler.stats.steps >= num_tokens
    grown = [*prompt, *output[:-1]]
    subject.note_stored(engine, grown)
    subject.at_once(grown)
    again = answer(engine, [*grown, output[-1]], greedy(1))
    assert cached(again) == len(grown)
    return output


def in_a_batch(subject: Subject, prompts: Sequence[Sequence[int]], num_tokens: int) -> None:
    """All together, one arriving at every step: decoding beside prefill, hits beside misses."""
    engine = subject.engine(max_running=len(prompts), max_step_tokens=64, max_mixed_tokens=48)
    late = iter(range(1, len(prompts)))
    widest = 0

    def arrive(step: int) -> None:
        nonlocal widest
        widest = max(widest, engine.scheduler.num_running)
        if step and (index := next(late, None)) is not None:
            engine.submit(Request(index, list(prompts[index]), greedy(num_tokens)))

    outcomes = run(engine, [Request(0, list(prompts[0]), greedy(num_tokens))], before_step=arrive)
    assert len(outcomes) == widest == len(prompts), "they did not all run together"
    for index, prompt in enumerate(prompts):
        subject.note_stored(engine, [*prompt, *outcomes[index].tokens[:-1]])
    assert any(cached(outcome) for outcome in outcomes.values())


def preempted(subject: Subject, prompts: Sequence[Sequence[int]], num_tokens: int) -> None:
    """In a pool that holds about half of them: given up, queued again, and gone on with."""
    needed = max(map(len, prompts)) + num_tokens
    engine = subject.engine(
        page_size=8, pool_tokens=needed * len(prompts) // 2 // 8 * 8, max_running=len(prompts)
    )
    outcomes = run(engine, [Request(i, list(p), greedy(num_tokens)) for i, p in enumerate(prompts)])
    assert engine.scheduler.stats.preemptions > 0
    assert [len(outcomes[i].tokens) for i in range(len(prompts))] == [num_tokens] * len(prompts)


def drafted(subject: Subject, prompt: Sequence[int], output: Sequence[int]) -> None:
    """The answer guessed, with a wrong token now and then: accepted and rejected drafts."""
    guess = [token + 1 if i % 9 == 5 else token for i, token in enumerate(output)]
    lookup = PromptLookup([[*prompt, *guess]])
    engine = subject.engine(max_draft_tokens=15)
    request = Request(0, list(prompt), greedy(len(output)), lookup=lookup)
    outcome = run(engine, [request])[0]
    assert outcome.usage is not None
    assert 0 < outcome.usage.accepted_tokens < outcome.usage.draft_tokens
    subject.note_stored(engine, [*prompt, *outcome.tokens[:-1]])


def through_host_memory(subject: Subject, make_prompt: MakePrompt, tokens: Sequence[int]) -> None:
    """Evicted by others, brought back at its page borders, and gone on with; three times."""
    engine = subject.engine(
        pool_tokens=len(tokens) + 64, host_cache_bytes=256 << 20, tier_gate="always"
    )
    for turn, end in enumerate((len(tokens) - 40, len(tokens) - 17, len(tokens))):
        request = Request(turn, list(tokens[:end]), greedy(1))
        run(engine, [request])
        assert bool(request.restored) == (turn > 0)
        if turn:
            assert not engine.cache.num_cached(tokens[:1], b"others")
        subject.note_stored(engine, tokens[:end])
        crowd = make_prompt(len(tokens), 90 + turn)
        answer(engine, crowd, greedy(1))
        assert engine.cache.num_cached(tokens) < end // 2


def after_a_restart(
    subject: Subject, tokens: Sequence[int], make_store: Callable[[EnginePlan, int], PageStore]
) -> None:
    """What an engine gave its store when it was closed, another goes on with."""
    first = subject.engine(make_store=make_store, tier_gate="always")
    answer(first, tokens[:-30], greedy(1))
    first.close()
    second = subject.engine(make_store=make_store, tier_gate="always")
    request = Request(0, list(tokens), greedy(1))
    run(second, [request], max_steps=10_000_000)
    assert sum(request.restored.values()) >= len(tokens) - 30 - 16
    subject.note_stored(second, tokens)
    second.close()


def below_the_pool(subject: Subject, make_prompt: MakePrompt) -> None:
    """By way of host memory, and of a store and a restart."""
    tokens = make_prompt(150, 3)
    subject.at_once(tokens)
    through_host_memory(subject, make_prompt, tokens)
    stores: list[MemoryStore] = []

    def make_store(plan: EnginePlan, page_bytes: int) -> PageStore:
        if not stores:
            stores.append(MemoryStore(page_bytes))
        return stores[0]

    after_a_restart(subject, tokens, make_store)


def every_arm(subject: Subject, make_prompt: MakePrompt) -> None:
    """All arms, on prompts of moderate length."""
    alone(subject, make_prompt)
    in_company(subject, make_prompt)
    below_the_pool(subject, make_prompt)


def alone(subject: Subject, make_prompt: MakePrompt) -> None:
    """The arms with one request at a time."""
    tokens = make_prompt(150, 3)
    subject.at_once(tokens)
    whole_chunks(subject, tokens, (16, 17, 50, 149))
    warm(subject, tokens, 16, (1, 15, 16, 17, 95, 96, 97, 149, 150))
    output = built_by_decoding(subject, tokens[:40], 40)
    drafted(subject, tokens[:40], output)
    # Over the border of a tile of keys.
    long = make_prompt(300, 8)
    subject.at_once(long)
    warm(subject, long, 16, (255, 256, 257))
    built_by_decoding(subject, long[:250], 12)


def in_company(subject: Subject, make_prompt: MakePrompt) -> None:
    """The arms with several, and each of them alone before."""
    tokens = make_prompt(150, 3)
    batch = [tokens[:40], make_prompt(90, 4), tokens[:64], [7], tokens, make_prompt(33, 5)]
    batch += [make_prompt(64, 6), make_prompt(80, 4)]
    for prompt in batch:
        built_by_decoding(subject, prompt, 20)
    in_a_batch(subject, batch, 20)
    preempted(subject, batch[:4], 20)


def cut_and_decoded(subject: Subject, make_prompt: MakePrompt) -> None:
    """The two arms in which arithmetic that is not exact shows first."""
    tokens = make_prompt(150, 3)
    subject.at_once(tokens)
    whole_chunks(subject, tokens, (17, 50, 149))
    built_by_decoding(subject, tokens[:40], 20)
