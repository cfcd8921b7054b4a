"""What cache and scheduler cost where nothing can be reused.

Prompts that have nothing in common go through two engines, one with the index and one that only
counts pages. Their steps are the same, so they are taken in turns: whatever else slows the machine
down slows both.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from statistics import median

from radixchat.bench.bench_model import greedy, random_tokens, warm_up
from radixchat.bench.cache_clock import CacheClock
from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.request import Request
from radixchat.engine.weights import Checkpoint


@dataclass(frozen=True, slots=True)
class OverheadLoad:
    """Requests of equal length, so many at a time. pool_tokens: less than all of them together, so
    that the index evicts too."""

    requests: int
    running: int
    prompt: int
    answer: int
    pool_tokens: int


@dataclass(frozen=True, slots=True)
class Overhead:
    """cached_tokens: 0, or there was reuse after all. steps, steps_without: of the two engines.

    cache_share: of the wall time of the engine with the index, what it spends inside of it;
    scheduler_share: scheduler and index together. wall_ratio: of the two engines' times;
    step_ratio: the median over pairs of steps, which no single pause moves.
    """

    requests: int
    cached_tokens: int
    evicted_pages: int
    steps: int
    steps_without: int
    wall_s: float
    cache_ms_per_step: float
    cache_share: float
    scheduler_share: float
    wall_ratio: float
    step_ratio: float


class _Side:
    """One of the two engines under the load."""

    def __init__(
        self, checkpoint: Checkpoint, load: OverheadLoad, seed: int, *, prefix_cache: bool
    ) -> None:
        config = EngineConfig(
            pool_tokens=load.pool_tokens,
            max_running=load.running,
            max_waiting=max(EngineConfig().max_waiting, load.requests),
            prefix_cache=prefix_cache,
        )
        self.engine = Engine(checkpoint, config)
        warm_up(self.engine)
        self.clock = CacheClock(self.engine.cache)
        self.schedule_seconds = -self.engine.scheduler.stats.schedule_seconds
        self.times: list[float] = []
        self.cached_tokens = 0
        self.requests = _requests(load, seed, checkpoint.config.vocab_size)
        self.engine.submit(*self.requests)

    def step(self) -> None:
        """One step, and how long it took."""
        started = time.perf_counter()
        events = self.engine.step()
        self.times.append(time.perf_counter() - started)
        self.cached_tokens += sum(event.usage.cached_tokens for event in events if event.usage)


def overhead(checkpoint: Checkpoint, load: OverheadLoad, seed: int) -> Overhead:
    """Run both engines step by step; they must give the same answers."""
    ours = _Side(checkpoint, load, seed, prefix_cache=True)
    pages = _Side(checkpoint, load, seed, prefix_cache=False)
    order = [ours, pages]
    while ours.engine.has_work or pages.engine.has_work:
        for side in order:
            if side.engine.has_work:
                side.step()
        order.reverse()
    answers = [[request.tokens for request in side.requests] for side in order]
    assert answers[0] == answers[1], "the cache is visible"
    wall, cache = sum(ours.times), ours.engine.cache
    schedule_seconds = ours.schedule_seconds + ours.engine.scheduler.stats.schedule_seconds
    pairs = zip(ours.times, pages.times, strict=False)
    return Overhead(
        requests=load.requests,
        cached_tokens=ours.cached_tokens,
        evicted_pages=_num_written(load, cache.page_size) - cache.num_cached_pages,
        steps=len(ours.times),
        steps_without=len(pages.times),
        wall_s=round(wall, 3),
        cache_ms_per_step=round(1000 * ours.clock.seconds / len(ours.times), 4),
        cache_share=round(ours.clock.seconds / wall, 5),
        scheduler_share=round(schedule_seconds / wall, 5),
        wall_ratio=round(wall / sum(pages.times), 4),
        step_ratio=round(median(with_it / without for with_it, without in pairs), 4),
    )


def _num_written(load: OverheadLoad, page_size: int) -> int:
    """Pages that all requests fill; the last token of an answer has no K/V."""
    return load.requests * -(-(load.prompt + load.answer - 1) // page_size)


def _requests(load: OverheadLoad, seed: int, vocab_size: int) -> list[Request]:
    rng = random.Random(seed)
    # No two begin with the same token.
    first = rng.sample(range(vocab_size), load.requests)
    return [
        Request(
            i, [first[i], *random_tokens(rng, vocab_size, load.prompt - 1)], greedy(load.answer)
        )
        for i in range(load.requests)
    ]
