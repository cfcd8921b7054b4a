"""What a device does in order, while the host does something else: `DeviceQueue`.

On CUDA the current stream, its pinned memory, its events and its graphs; on the CPU everything is
done by the time a call returns. Knows no model, no request and no page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor


class Mark(Protocol):
    """A place in the queue."""

    def synchronize(self) -> None:
        """Wait until the device is past it."""


class DeviceQueue(Protocol):
    """The order of work on one device."""

    @property
    def device(self) -> str:
        """Its name for torch."""

    def host_tensor(self, size: int, dtype: torch.dtype) -> Tensor:
        """Zeros [size] on the host, from and to which `copy_(non_blocking=True)` does not wait."""

    def mark(self) -> Mark:
        """The end of what was asked for until now."""

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """What does the same work again, on the same tensors, at one call's cost.

        work is run a few times; it allocates the same and launches the same whenever it runs, and
        waits for nothing.
        """


class _Passed:
    """A mark that the CPU is always past."""

    def synchronize(self) -> None:
        """Return: nothing is outstanding."""


class CpuQueue:
    """The CPU, which has done what it was asked for."""

    device = "cpu"

    def host_tensor(self, size: int, dtype: torch.dtype) -> Tensor:
        """As DeviceQueue."""
        return torch.zeros(size, dtype=dtype)

    def mark(self) -> Mark:
        """As DeviceQueue."""
        return _Passed()

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """The work itself."""
        return work


class CudaQueue:
    """The current stream of one CUDA device; its graphs share their memory."""

    # A kernel is compiled and a library takes its workspace in the first run; the second one finds
    # what the first allocated, as the captured one will.
    WARM_UP_RUNS = 2

    def __init__(self, device: str = "cuda") -> None:
        self.device = device
        self._pool: Any = None  # torch names no type for it

    def host_tensor(self, size: int, dtype: torch.dtype) -> Tensor:
        """As DeviceQueue: pinned memory."""
        return torch.zeros(size, dtype=dtype, pin_memory=True)

    def mark(self) -> Mark:
        """As DeviceQueue."""
        event: Mark = torch.cuda.current_stream().record_event()
        return event

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """As DeviceQueue.

        The graphs replay in the order of one stream, so none needs memory while another runs.
        """
        make: Any = torch.cuda.Stream  # it has no types
        side: torch.cuda.Stream = make()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(self.WARM_UP_RUNS):
                work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            work()
        self._pool = graph.pool()
        return graph.replay
