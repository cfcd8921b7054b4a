"""What a decode step reads, at addresses that never change: `DecodeInputs`, and its way there.

One buffer on the device, and a few like it on the host: a step fills one of these and sends it
with a single copy, while the device may still be reading the one before. Knows numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from radixchat.engine.device_queue import DeviceQueue, Mark

# One is being filled, one on its way, one read by a step that is not done.
HOST_BUFFERS = 3
# In 4-byte words a row: four numbers have two, six have one.
_HEADER_WORDS = 14


@dataclass(frozen=True, slots=True)
class DecodeInputs:
    """Views of one buffer for steps of so many rows.

    slots: int64 [rows], where a row's K and V go, -1 for none. draw_counts: int64 [3, rows], the
    seed, the position of the new token and top_k. tokens: int32 [rows]. sources: int32 [rows], the
    place among the tokens sampled last that is meant instead of the row's token, or -1. lengths:
    int32 [rows], a row's positions, its own the last of them; 0 for a row that belongs to nobody.
    draw_numbers: fp32 [3, rows], temperature, top_p and min_p. tables: int32 [rows, pages].
    """

    slots: Tensor
    draw_counts: Tensor
    tokens: Tensor
    sources: Tensor
    lengths: Tensor
    draw_numbers: Tensor
    tables: Tensor

    @classmethod
    def of(cls, buffer: Tensor, rows: int, pages: int) -> DecodeInputs:
        """The views of a buffer int32 of num_words(rows, pages) or more."""
        sizes = [2 * rows, 6 * rows, rows, rows, rows, 3 * rows, rows * pages]
        parts = torch.split_with_sizes(buffer[: sum(sizes)], sizes)
        return cls(
            slots=parts[0].view(torch.int64),
            draw_counts=parts[1].view(torch.int64).view(3, rows),
            tokens=parts[2],
            sources=parts[3],
            lengths=parts[4],
            draw_numbers=parts[5].view(torch.float32).view(3, rows),
            tables=parts[6].view(rows, pages),
        )


def num_words(rows: int, pages: int) -> int:
    """The size of a buffer, in words of 4 bytes."""
    return rows * (_HEADER_WORDS + pages)


@dataclass(frozen=True, slots=True)
class RowInputs:
    """The values of n rows on the host, by the names of DecodeInputs."""

    slots: NDArray[np.int64]
    draw_counts: NDArray[np.int64]
    tokens: NDArray[np.int32]
    sources: NDArray[np.int32]
    lengths: NDArray[np.int32]
    draw_numbers: NDArray[np.float32]

    @classmethod
    def empty(cls, count: int) -> RowInputs:
        """Rows that belong to nobody, and whose likeliest token is taken."""
        return cls(
            slots=np.full(count, -1, np.int64),
            draw_counts=np.zeros((3, count), np.int64),
            tokens=np.zeros(count, np.int32),
            sources=np.full(count, -1, np.int32),
            lengths=np.zeros(count, np.int32),
            draw_numbers=np.zeros((3, count), np.float32),
        )


class InputQueue:
    """Carries inputs to the device's one buffer, without waiting for the device."""

    def __init__(self, sizes: tuple[int, ...], pages: int, queue: DeviceQueue) -> None:
        """sizes: numbers of rows that steps may have."""
        words = num_words(max(sizes), pages)
        self._queue = queue
        self._target = torch.zeros(words, dtype=torch.int32, device=queue.device)
        self._inputs = {size: DecodeInputs.of(self._target, size, pages) for size in sizes}
        self._buffers = [queue.host_tensor(words, torch.int32) for _ in range(HOST_BUFFERS)]
        self._views = [
            {size: DecodeInputs.of(buffer, size, pages) for size in sizes}
            for buffer in self._buffers
        ]
        self._pages = pages
        self._sent: list[Mark | None] = [None] * HOST_BUFFERS
        self._next = 0

    def inputs(self, size: int) -> DecodeInputs:
        """What a step of this size reads."""
        return self._inputs[size]

    def send(self, size: int, rows: RowInputs, tables: NDArray[np.int32]) -> None:
        """Give the first rows of a size these values, and make those behind them empty.

        tables: [rows, pages]. Waits only where the device is HOST_BUFFERS steps behind.
        """
        index, self._next = self._next, (self._next + 1) % HOST_BUFFERS
        sent = self._sent[index]
        if sent is not None:
            sent.synchronize()
        view, count = self._views[index][size], len(tables)
        empty = RowInputs.empty(size - count)
        for name in RowInputs.__slots__:
            values = getattr(view, name).numpy()
            values[..., :count] = getattr(rows, name)
            values[..., count:] = getattr(empty, name)
        view.tables.numpy()[:count] = tables
        words = num_words(size, self._pages)
        self._target[:words].copy_(self._buffers[index][:words], non_blocking=True)
        self._sent[index] = self._queue.mark()
