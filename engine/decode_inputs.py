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
# In 4-byte words a row: slots and seeds have two, seven others one.
_HEADER_WORDS = 11


@dataclass(frozen=True, slots=True)
class DecodeInputs:
    """Views of one buffer, [rows] each but `tables`, [rows, pages].

    slots: int64, where a row's K and V go, -1 for none. seeds: int64. tokens: int32.
    sources: int32, the place among the tokens sampled last that is meant instead of the row's
    token, or -1. lengths: int32, a row's positions, its own the last of them; 0 for a row that
    belongs to nobody. top_ks: int32. temperatures, top_ps, min_ps: fp32. tables: int32.
    """

    slots: Tensor
    seeds: Tensor
    tokens: Tensor
    sources: Tensor
    lengths: Tensor
    top_ks: Tensor
    temperatures: Tensor
    top_ps: Tensor
    min_ps: Tensor
    tables: Tensor

    @classmethod
    def of(cls, buffer: Tensor, rows: int, pages: int) -> DecodeInputs:
        """The views of a buffer int32 [num_words(rows, pages)]."""
        wide = [buffer[2 * i * rows : 2 * (i + 1) * rows].view(torch.int64) for i in range(2)]
        words = [buffer[i * rows : (i + 1) * rows] for i in range(4, _HEADER_WORDS)]
        return cls(
            slots=wide[0],
            seeds=wide[1],
            tokens=words[0],
            sources=words[1],
            lengths=words[2],
            top_ks=words[3],
            temperatures=words[4].view(torch.float32),
            top_ps=words[5].view(torch.float32),
            min_ps=words[6].view(torch.float32),
            tables=buffer[_HEADER_WORDS * rows :].view(rows, pages),
        )


def num_words(rows: int, pages: int) -> int:
    """The size of a buffer, in words of 4 bytes."""
    return rows * (_HEADER_WORDS + pages)


@dataclass(frozen=True, slots=True)
class RowInputs:
    """The values of the first n rows of DecodeInputs, on the host, by the same names."""

    slots: NDArray[np.int64]
    seeds: NDArray[np.int64]
    tokens: NDArray[np.int32]
    sources: NDArray[np.int32]
    lengths: NDArray[np.int32]
    top_ks: NDArray[np.int32]
    temperatures: NDArray[np.float32]
    top_ps: NDArray[np.float32]
    min_ps: NDArray[np.float32]

    @classmethod
    def empty(cls, count: int) -> RowInputs:
        """Rows that belong to nobody."""
        return cls(
            slots=np.full(count, -1, np.int64),
            seeds=np.zeros(count, np.int64),
            tokens=np.zeros(count, np.int32),
            sources=np.full(count, -1, np.int32),
            lengths=np.zeros(count, np.int32),
            top_ks=np.zeros(count, np.int32),
            temperatures=np.zeros(count, np.float32),
            top_ps=np.ones(count, np.float32),
            min_ps=np.zeros(count, np.float32),
        )


class InputQueue:
    """Carries inputs to the device's one buffer, without waiting for the device."""

    def __init__(self, rows: int, pages: int, queue: DeviceQueue) -> None:
        size = num_words(rows, pages)
        self._rows = rows
        self._queue = queue
        self._target = torch.zeros(size, dtype=torch.int32, device=queue.device)
        self.inputs = DecodeInputs.of(self._target, rows, pages)
        self._buffers = [queue.host_tensor(size, torch.int32) for _ in range(HOST_BUFFERS)]
        self._views = [DecodeInputs.of(buffer, rows, pages) for buffer in self._buffers]
        self._sent: list[Mark | None] = [None] * HOST_BUFFERS
        self._next = 0
        self._empty = RowInputs.empty(rows)
        self.send(rows, RowInputs.empty(0), np.zeros((0, pages), dtype=np.int32))

    def send(self, size: int, rows: RowInputs, tables: NDArray[np.int32]) -> None:
        """Give the first rows these values, and make those behind them up to `size` empty.

        tables: [rows, pages]. Waits only where the device is HOST_BUFFERS steps behind.
        """
        index, self._next = self._next, (self._next + 1) % HOST_BUFFERS
        sent = self._sent[index]
        if sent is not None:
            sent.synchronize()
        view, count = self._views[index], len(tables)
        for name in RowInputs.__slots__:
            values = getattr(view, name).numpy()
            values[:count] = getattr(rows, name)
            values[count:] = getattr(self._empty, name)[count:]
        view.tables.numpy()[:count] = tables
        words = num_words(self._rows, 0) + size * view.tables.shape[1]
        self._target[:words].copy_(self._buffers[index][:words], non_blocking=True)
        self._sent[index] = self._queue.mark()
