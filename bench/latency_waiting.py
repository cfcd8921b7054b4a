"""How long a request waits that no cache helps, while others keep coming that it does help.

The adversary keeps the queue full: whenever a request ends, another one comes that begins with a
cached prefix. A scheduler that only prefers the longest prefix never reaches the one without.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from radixchat.bench.bench_model import greedy, random_tokens, warm_up
from radixchat.bench.percentiles import Percentiles
from radixchat.engine.config import EngineConfig
from radixchat.engine.engine import Engine
from radixchat.engine.request import Request, Usage
from radixchat.engine.weights import Checkpoint


@dataclass(frozen=True, slots=True)
class WaitingLoad:
    """requests: in all; every `miss_every`-th finds nothing in the cache, but none of the last
    `quiet`. waiting: so many of the others always wait. prefix: of them, cached tokens; fresh: of
    all, tokens that are new.

    max_overtaken: None, the engine's default.
    """

    requests: int
    miss_every: int
    quiet: int
    waiting: int
    prefix: int
    fresh: int
    max_overtaken: int | None = None

    def misses(self, number: int) -> bool:
        """Whether this one finds nothing; the last ones do not, for him who waits for their end."""
        late = number >= self.requests - self.quiet
        return number % self.miss_every == self.miss_every - 1 and not late


@dataclass(frozen=True, slots=True)
class WaitingArm:
    """bound: the plan's max_overtaken, None where nothing is promised.

    overtaken: the most later requests that were admitted before one; misses_overtaken: of each
    request that finds nothing. wait_ms: from arrival to admission, of all; longest_miss_ms: of
    those that find nothing.
    """

    name: str
    bound: int | None
    overtaken: int
    misses_overtaken: tuple[int, ...]
    hit_rate: float
    wait_ms: Percentiles
    p99_over_p50: float
    longest_miss_ms: float


def waiting(checkpoint: Checkpoint, load: WaitingLoad, seed: int) -> tuple[WaitingArm, ...]:
    """The same stream through three schedulers."""
    bound = EngineConfig().max_overtaken if load.max_overtaken is None else load.max_overtaken
    arms = (
        ("ours", EngineConfig(max_running=1, max_overtaken=bound)),
        ("lpm, no ageing", EngineConfig(max_running=1, max_overtaken=None)),
        ("fcfs", EngineConfig(max_running=1, schedule="fcfs")),
    )
    return tuple(_arm(name, Engine(checkpoint, config), load, seed) for name, config in arms)


class _Stream:
    """Who arrived, in which order they were admitted, and how long they waited, in seconds."""

    def __init__(self, engine: Engine, load: WaitingLoad, seed: int) -> None:
        self._engine = engine
        self._load = load
        self._rng = random.Random(seed)
        self._prefix = self._random(load.prefix)
        self._requests: list[Request] = []
        self._arrived: list[float] = []
        self.admitted: list[int] = []
        self.waits: dict[int, float] = {}
        self.usages: list[Usage] = []

    def run(self) -> None:
        """Put the prefix in the cache, then keep the queue full to the last request."""
        self._engine.submit(Request(-1, self._prefix, greedy(1)))
        while self._engine.has_work:
            self._engine.step()
        while len(self.usages) < self._load.requests:
            self._arrive()
            began = time.perf_counter()
            events = self._engine.step()
            self.usages += [event.usage for event in events if event.usage is not None]
            # One runs at a time, so a step admits at most one.
            for request in self._requests:
                if request.num_cached is not None and request.id not in self.waits:
                    self.waits[request.id] = began - self._arrived[request.id]
                    self.admitted.append(request.id)

    def overtaken(self, number: int) -> int:
        """How many later ones were admitted before this one."""
        return sum(other > number for other in self.admitted[: self.admitted.index(number)])

    def _arrive(self) -> None:
        load = self._load
        helped = sum(
            each.num_cached is None and each.num_prompt > load.fresh for each in self._requests
        )
        while helped < load.waiting and len(self._requests) < load.requests:
            number, fresh = len(self._requests), self._random(load.fresh)
            helped += not load.misses(number)
            tokens = fresh if load.misses(number) else self._prefix + fresh
            self._requests.append(Request(number, tokens, greedy(2)))
            self._arrived.append(time.perf_counter())
            self._engine.submit(self._requests[-1])

    def _random(self, count: int) -> list[int]:
        return random_tokens(self._rng, self._engine.plan.vocab_size, count)


def _arm(name: str, engine: Engine, load: WaitingLoad, seed: int) -> WaitingArm:
    warm_up(engine)
    stream = _Stream(engine, load, seed)
    stream.run()
    misses = [number for number in range(load.requests) if load.misses(number)]
    wait_ms = Percentiles.of([1000 * seconds for seconds in stream.waits.values()])
    cached = sum(usage.cached_tokens for usage in stream.usages)
    return WaitingArm(
        name=name,
        bound=engine.plan.max_overtaken if engine.plan.schedule == "lpm" else 0,
        overtaken=max(stream.overtaken(number) for number in range(load.requests)),
        misses_overtaken=tuple(stream.overtaken(number) for number in misses),
        hit_rate=round(cached / sum(usage.input_tokens for usage in stream.usages), 4),
        wait_ms=wait_ms,
        p99_over_p50=round(wait_ms.p99 / wait_ms.p50, 2),
        longest_miss_ms=round(1000 * max(stream.waits[number] for number in misses), 1),
    )
