"""How long a running answer pauses while a long prompt arrives, with and without chunks.

What a pause may cost is measured beside it: a step that computes a chunk and a token of the answer
has the time of a chunk with nobody else, and of a token with nobody else. Rounds are put together,
so that a moment in which the machine did something else is one gap among hundreds.
"""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass
from itertools import pairwise

from radixchat.bench.bench_model import greedy, random_tokens, warm_up
from radixchat.bench.percentiles import Percentiles
from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.request import Request
from radixchat.engine.step_budget import DEFAULT_BUDGETS
from radixchat.engine.weights import Checkpoint


@dataclass(frozen=True, slots=True)
class GapLoad:
    """prompt: tokens of the long one; question: of the prompt whose answer is running; before: how
    many tokens of that answer come first, undisturbed. step_tokens: computed in a step while an
    answer is running. rounds: of the chunked arm; the other takes one."""

    prompt: int
    question: int = 32
    before: int = 8
    step_tokens: int = DEFAULT_BUDGETS["cpu"].mixed_tokens
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class GapArm:
    """gaps_ms: between the answer's tokens from the prompt's arrival to its first token, which is
    as many as it has chunks; idle_ms: before. over_budget: p99 of the gaps over the budget time.
    prompt_ms: of one round."""

    name: str
    rounds: int
    prompt_ms: float
    idle_ms: Percentiles
    gaps_ms: Percentiles
    over_budget: float


@dataclass(frozen=True, slots=True)
class Gaps:
    """prompt_alone_ms: of the long prompt with nobody else, in `chunks` steps. budget_ms: of one of
    these, and of a token before the prompt came."""

    prompt_tokens: int
    prompt_alone_ms: float
    chunks: int
    budget_ms: float
    arms: tuple[GapArm, ...]


@dataclass(frozen=True, slots=True)
class _Round:
    """Milliseconds: of the whole prompt, and between the answer's tokens before and during it."""

    prompt: float
    idle: list[float]
    during: list[float]


def gaps(checkpoint: Checkpoint, load: GapLoad, seed: int) -> Gaps:
    """Measure the prompt alone, then beside an answer: in chunks, and once as one chunk."""
    rng = random.Random(seed)
    small = _engine(checkpoint, load.step_tokens)
    alone, chunked = [], []
    for _ in range(load.rounds):
        alone.append(_alone(small, load, rng))
        chunked.append(_beside(small, load, rng))
    # A token far behind the beginning counts for more than one.
    whole = [_beside(_engine(checkpoint, 1000 * load.prompt), load, rng)]
    alone_ms, chunks = statistics.median(ms for ms, _ in alone), alone[0][1]
    token_ms = statistics.median(gap for round_ in chunked for gap in round_.idle)
    budget_ms = alone_ms / chunks + token_ms
    arms = (_arm("chunked", chunked, budget_ms), _arm("one chunk", whole, budget_ms))
    return Gaps(load.prompt, round(alone_ms, 1), chunks, round(budget_ms, 2), arms)


def _engine(checkpoint: Checkpoint, step_tokens: int) -> Engine:
    config = EngineConfig(max_step_tokens=step_tokens, max_mixed_tokens=step_tokens)
    engine = Engine(checkpoint, config)
    warm_up(engine)
    return engine


def _alone(engine: Engine, load: GapLoad, rng: random.Random) -> tuple[float, int]:
    """Milliseconds and steps of a prompt with nobody else."""
    engine.submit(Request(0, _long_prompt(engine, load, rng), greedy(1)))
    steps, started = 0, time.perf_counter()
    while engine.has_work:
        engine.step()
        steps += 1
    return 1000 * (time.perf_counter() - started), steps


def _long_prompt(engine: Engine, load: GapLoad, rng: random.Random) -> list[int]:
    return random_tokens(rng, engine.plan.vocab_size, load.prompt)


def _beside(engine: Engine, load: GapLoad, rng: random.Random) -> _Round:
    """The gaps of an answer that goes on until the long prompt has its first token."""
    question = random_tokens(rng, engine.plan.vocab_size, load.question)
    answer = Request(1, question, greedy(engine.plan.max_tokens))
    long = Request(2, _long_prompt(engine, load, rng), greedy(1))
    engine.submit(answer)
    arrivals: list[float] = []
    submitted = 0.0
    while long.num_output == 0:
        if len(arrivals) == load.before and not submitted:
            submitted = time.perf_counter()
            engine.submit(long)
        for event in engine.step():
            if event.request_id == answer.id:
                assert event.finish is None, "the running answer ended before the prompt"
                arrivals.append(time.perf_counter())
    prompt_ms = 1000 * (time.perf_counter() - submitted)
    engine.cancel(answer.id)
    engine.step()
    engine.cache.flush()
    times = [1000 * (after - before) for before, after in pairwise(arrivals)]
    # The gap that begins with the token before the prompt came is the first that it prolongs.
    return _Round(prompt_ms, times[: load.before - 1], times[load.before - 1 :])


def _arm(name: str, rounds: list[_Round], budget_ms: float) -> GapArm:
    during = Percentiles.of([gap for each in rounds for gap in each.during])
    return GapArm(
        name,
        len(rounds),
        round(statistics.median(each.prompt for each in rounds), 1),
        Percentiles.of([gap for each in rounds for gap in each.idle]),
        during,
        round(during.p99 / budget_ms, 3),
    )
