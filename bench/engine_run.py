"""One arm of `bench engine`: an engine driven through a plan, with what each turn waited for.

Owns the clock of a run. Where nothing is under way the time until the next message is skipped, not
slept, so a run lasts as long as its computing. Knows no table.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.bench_model import greedy, warm_up
from radixchat.bench.engine_mix import PlannedConversation
from radixchat.engine.collector import GarbageCollector
from radixchat.engine.engine import Engine
from radixchat.engine.request import Request, TokenEvent
from radixchat.engine.stats import EngineStats


@dataclass(frozen=True, slots=True, eq=False)
class TurnRecord:
    """One turn as its user saw it; seconds.

    turn: from 1. arrival: when it was sent, from the start. late: it was to be sent earlier, but
    the turn before was still being answered. ttft, lasted: from the arrival to the first and the
    last token; gaps: between its tokens. queue: from the arrival to the admission, the rest of the
    step that was running included. prompt: int32 [tokens].
    """

    conversation: str
    turn: int
    arrival: float
    late: bool
    ttft: float
    lasted: float
    gaps: tuple[float, ...]
    queue: float
    prompt: NDArray[np.int32]
    cached_tokens: int
    output: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ArmRun:
    """A whole run. turns: in order of arrival. lasted: seconds from the first message to the last
    token; busy: those of them in which the engine had something to do. counters: of this run."""

    turns: tuple[TurnRecord, ...]
    lasted: float
    busy: float
    counters: EngineStats


@dataclass(slots=True, eq=False)
class _Live:
    """A turn under way."""

    conversation: int
    turn: int
    request: Request
    arrival: float
    late: bool
    submitted: float
    times: list[float] = field(default_factory=list)


class _Clock:
    """Seconds since it was made, those that were skipped included."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self.skipped = 0.0

    def now(self) -> float:
        return time.perf_counter() - self._start + self.skipped

    def skip_to(self, moment: float) -> None:
        self.skipped += max(0.0, moment - self.now())


class _OpenLoop:
    """Sends each message at its time and takes down what comes back."""

    def __init__(self, engine: Engine, plan: Sequence[PlannedConversation]) -> None:
        self._engine = engine
        self._plan = plan
        self._histories = [list(each.system) for each in plan]
        # When, which conversation, which of its turns, late?
        self._due = [(each.turns[0].time, i, 0, False) for i, each in enumerate(plan)]
        heapify(self._due)
        self._live: dict[int, _Live] = {}
        self._records: list[TurnRecord] = []
        self._clock = _Clock()

    def run(self) -> ArmRun:
        before = replace(self._engine.scheduler.stats)
        with GarbageCollector() as collector:
            while self._due or self._live:
                if not self._live:
                    self._clock.skip_to(self._due[0][0])
                self._send()
                events = self._engine.step()
                assert not self._engine.is_still, self._engine.waits()
                now = self._clock.now()
                for event in events:
                    self._take(event, now)
                collector.after_step()
        lasted = self._clock.now()
        counters = _difference(before, self._engine.scheduler.stats)
        turns = sorted(self._records, key=lambda each: each.arrival)
        return ArmRun(tuple(turns), lasted, lasted - self._clock.skipped, counters)

    def _send(self) -> None:
        while self._due and self._due[0][0] <= self._clock.now():
            arrival, index, turn, late = heappop(self._due)
            planned = self._plan[index].turns[turn]
            self._histories[index] += planned.message
            request = Request(
                len(self._live) + len(self._records),
                list(self._histories[index]),
                greedy(planned.answer),
                conversation=self._plan[index].name,
            )
            self._engine.submit(request)
            self._live[request.id] = _Live(index, turn, request, arrival, late, self._clock.now())

    def _take(self, event: TokenEvent, now: float) -> None:
        live = self._live[event.request_id]
        if event.error is not None:
            raise event.error
        if event.token is not None:
            live.times.append(now)
        if event.usage is None:
            return
        del self._live[event.request_id]
        request, plan = live.request, self._plan[live.conversation]
        output = tuple(request.tokens[request.num_prompt :])
        times = live.times
        self._records.append(
            TurnRecord(
                plan.name,
                live.turn + 1,
                live.arrival,
                live.late,
                times[0] - live.arrival,
                times[-1] - live.arrival,
                tuple(after - before for before, after in pairwise(times)),
                live.submitted - live.arrival + event.usage.queue_seconds,
                np.array(request.tokens[: request.num_prompt], np.int32),
                event.usage.cached_tokens,
                output,
            )
        )
        self._histories[live.conversation] = list(request.tokens)
        if (turn := live.turn + 1) < len(plan.turns):
            planned = plan.turns[turn].time
            heappush(self._due, (max(planned, now), live.conversation, turn, planned < now))


def drive(engine: Engine, plan: Sequence[PlannedConversation]) -> ArmRun:
    """Answer everything that the plan has, on a fresh engine; it is warmed up first."""
    warm_up(engine)
    return _OpenLoop(engine, plan).run()


def _difference(before: EngineStats, after: EngineStats) -> EngineStats:
    names = [each.name for each in fields(EngineStats)]
    return EngineStats(**{name: getattr(after, name) - getattr(before, name) for name in names})
