"""When a device was at work on decode steps: a queue whose graphs leave a mark before and behind.

Knows no model. On a GPU the marks are events, of which the device itself writes the times; in a dry
run they are the host's, where nothing is ever under way while the host does something else.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from radixchat.engine.device_queue import CpuQueue, CudaQueue, DeviceQueue


@dataclass(frozen=True, slots=True)
class Busy:
    """Of decode steps. median_ms: of one; idle: the share of the time in which none was at work."""

    median_ms: float
    idle: float


def busy(spans: Sequence[tuple[float, float]]) -> Busy:
    """Of steps that follow each other, (start, end) in ms; at least one."""
    lengths = [end - start for start, end in spans]
    whole = spans[-1][1] - spans[0][0]
    return Busy(statistics.median(lengths), max(0.0, 1 - sum(lengths) / whole))


class Timeline(Protocol):
    """A queue that is watched."""

    @property
    def queue(self) -> DeviceQueue:
        """What the engine's runner is to use."""

    def clear(self) -> None:
        """Forget the steps until now."""

    def read(self) -> Busy:
        """Of the steps since."""


class HostTimeline(CpuQueue):
    """Of a dry run."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []

    @property
    def queue(self) -> DeviceQueue:
        """Itself."""
        return self

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """As CpuQueue, with the times."""

        def run() -> None:
            began = time.perf_counter()
            work()
            self._spans.append((began * 1e3, time.perf_counter() * 1e3))

        return run

    def clear(self) -> None:
        """As Timeline."""
        self._spans.clear()

    def read(self) -> Busy:
        """As Timeline."""
        return busy(self._spans)


class CudaTimeline(CudaQueue):
    """Of a GPU."""

    def __init__(self, device: str = "cuda") -> None:
        super().__init__(device)
        self._events: list[tuple[Any, Any]] = []

    @property
    def queue(self) -> DeviceQueue:
        """Itself."""
        return self

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """As CudaQueue, with an event before and one behind each replay."""
        replay = super().capture(work)
        make: Any = torch.cuda.Event  # it has no types

        def run() -> None:
            start, end = make(enable_timing=True), make(enable_timing=True)
            start.record()
            replay()
            end.record()
            self._events.append((start, end))

        return run

    def clear(self) -> None:
        """As Timeline."""
        self._events.clear()

    def read(self) -> Busy:
        """As Timeline; waits for the device."""
        torch.cuda.synchronize()
        origin = self._events[0][0]
        return busy([(origin.elapsed_time(s), origin.elapsed_time(e)) for s, e in self._events])
