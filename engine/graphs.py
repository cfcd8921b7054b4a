"""Decode steps by number of rows: one graph a bucket, captured at start, replayed each step.

A decode step of a small model is hundreds of launches that take the host longer than the device;
a graph is one. Its shapes are fixed, so a step has as many rows as the next larger bucket, and
those that belong to nobody read no key and write no slot. Knows no tensor and no request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial

from radixchat.engine.device_queue import DeviceQueue


def bucket_sizes(max_rows: int, smallest: int = 1) -> tuple[int, ...]:
    """smallest, doubled again and again, and last the first size that holds max_rows.

    Doubling costs nothing on the device: up to some hundred rows a step reads each weight once
    however many there are, and rows that belong to nobody have no keys. The last size is max_rows,
    rounded up to a multiple of smallest.
    """
    assert max_rows >= 1
    assert smallest >= 1
    largest = -(-max_rows // smallest) * smallest
    sizes = []
    size = smallest
    while size < largest:
        sizes.append(size)
        size *= 2
    return (*sizes, largest)


class DecodeGraphs:
    """The graphs of one model."""

    def __init__(
        self, work: Callable[[int], None], sizes: tuple[int, ...], queue: DeviceQueue
    ) -> None:
        """work(size): the step over the first `size` rows of its tensors, which never move."""
        self.sizes = sizes
        self._work = work
        self._queue = queue
        self._replays: dict[int, Callable[[], None]] = {}

    def size_for(self, num_rows: int) -> int:
        """The smallest size that holds so many rows; there is one for max_rows."""
        assert 1 <= num_rows <= self.sizes[-1], num_rows
        return self.sizes[bisect_left(self.sizes, num_rows)]

    def capture(self, size: int) -> None:
        """Make the graph of a size; the largest first, so that others find room in its memory.

        With rows of nobody: the work runs several times, and would sample behind its own tokens.
        """
        self._replays[size] = self._queue.capture(partial(self._work, size))

    def replay(self, size: int) -> None:
        """Ask for the step over the first `size` rows; its graph was made."""
        self._replays[size]()
