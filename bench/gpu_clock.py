"""How long something takes on a device: events on a GPU, the host's clock in a dry run.

Knows no kernel. A measurement on a GPU finds its second-level cache full of something else: a
decode step meets it like that, after the weights have gone through.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

# More than the second-level cache of any GPU there is (H200: 60 MB).
_FLUSH_BYTES = 256 << 20
# Each takes an H200 60 us. Together they outlast the host's asking for what is timed: Python takes
# some 40 us for a launch of Triton's, and a cascade is three of them, of 10 us each.
_FLUSHES = 8


class Clock(Protocol):
    """Times work on one device."""

    @property
    def device(self) -> str:
        """The device's name for torch."""

    def median_ms(self, work: Callable[[], object], repeats: int) -> float:
        """The median of so many runs after a first one that does not count."""

    def synchronize(self) -> None:
        """Wait until the device has done what it was asked for."""


@dataclass(frozen=True, slots=True)
class HostClock:
    """For a dry run, where a call returns when it is done."""

    device: str = "cpu"

    def median_ms(self, work: Callable[[], object], repeats: int) -> float:
        """As Clock, the first run among them: in the interpreter none is faster than another."""
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
        return statistics.median(times) * 1e3

    def synchronize(self) -> None:
        """Return: it has."""


class CudaClock:
    """For a GPU."""

    def __init__(self, device: str = "cuda") -> None:
        self.device = device
        self._full = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device=device)

    def median_ms(self, work: Callable[[], object], repeats: int) -> float:
        """As Clock.

        While the cache is flushed the host asks for the work, so what is measured begins at once.
        """
        make: Any = torch.cuda.Event  # it has no types
        for _ in range(3):
            work()
        pairs = [(make(enable_timing=True), make(enable_timing=True)) for _ in range(repeats)]
        for start, end in pairs:
            for _ in range(_FLUSHES):
                self._full.zero_()
            start.record()
            work()
            end.record()
        self.synchronize()
        return statistics.median(float(start.elapsed_time(end)) for start, end in pairs)

    def synchronize(self) -> None:
        """As Clock."""
        torch.cuda.synchronize()
