"""`StepAttention` on the CPU: the attention of `kernels/cpu_attention.py`, shared among threads.

For fp32 rows and heads of a multiple of 16; K and V fp32, or int8 with scales. Owns its scratch
memory. Knows no weight and no request.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from numba import prange
from numpy.typing import NDArray
from torch import Tensor

from radixchat.kernels import reference
from radixchat.kernels.cpu_attention import attend_entry, fold, scratch_bytes
from radixchat.kernels.cpu_entry import call
from radixchat.kernels.cpu_jit import parallel_jit
from radixchat.kernels.cpu_kv import describe_kv
from radixchat.kernels.cpu_plan import AttentionPlan, plan_attention
from radixchat.kernels.kv_pages import KVPages
from radixchat.kernels.layers import LayerShape
from radixchat.kernels.ragged import Ragged

LINE = 64
# Numbers of a call: addresses, bytes and counts.
QUERY, OUT, ROW_BYTES, GROUP, DIM, KV, TABLES, NUM_REQUESTS, WIDTH = range(9)
ITEMS, NUM_ITEMS, BOUNDS, NUM_PARTS, STATES, SCRATCH, PART_BYTES = range(9, 16)


class CpuStepAttention:
    """A StepAttention of fp32 rows."""

    def __init__(self, shape: LayerShape, threads: int | None = None) -> None:
        """threads: None for all that Numba has."""
        self._shape = shape
        self._threads = threads or numba.config.NUMBA_NUM_THREADS
        part = scratch_bytes(shape.num_heads, shape.num_kv_heads, shape.head_dim)
        self._part_bytes = -(-part // LINE) * LINE
        self._scratch = np.empty(self._threads * self._part_bytes + LINE, dtype=np.uint8)
        self._step: tuple[KVPages, Ragged, AttentionPlan] | None = None
        self._kvs: tuple[KVPages, list[NDArray[np.int64]]] | None = None

    def begin(self, pages: KVPages, step: Ragged, num_rows: int) -> None:
        """As StepAttention."""
        shape = self._shape
        if self._kvs is None or self._kvs[0] is not pages:
            self._kvs = (pages, [describe_kv(pages.layer(i)) for i in range(len(pages.k))])
        plan = plan_attention(
            step, shape.num_heads, shape.num_kv_heads, shape.head_dim, self._threads
        )
        self._step = (pages, step, plan)
        numba.set_num_threads(min(self._threads, numba.config.NUMBA_NUM_THREADS))

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As StepAttention."""
        assert self._step is not None, "no step has begun"
        assert self._kvs is not None
        assert query.dtype == torch.float32, query.dtype
        pages, step, plan = self._step
        reference.store_kv(key, value, pages.layer(layer), step.slots)
        query = query.contiguous()
        output = torch.empty_like(query)
        output[step.num_rows :] = 0.0
        _, heads, dim = query.shape
        tables = plan.tables
        numbers = (
            query.data_ptr(), output.data_ptr(), 4 * heads * dim,
            heads // self._shape.num_kv_heads, dim, self._kvs[1][layer].ctypes.data,
            tables.ctypes.data, *tables.shape, plan.items.ctypes.data, len(plan.items),
            plan.bounds.ctypes.data, self._threads, plan.states.ctypes.data,
            -(-self._scratch.ctypes.data // LINE) * LINE, self._part_bytes,
        )  # fmt: skip
        _attend(np.array(numbers), plan.folds, attend_entry().address)
        return output


@parallel_jit
def _attend(numbers: Any, folds: Any, attend_at: int) -> None:
    """All parts' work items, then the folds of what was attended in pieces."""
    for operation in range(2 if len(folds) else 1):
        for index in prange(numbers[NUM_PARTS]):
            part = np.int64(index)  # Numba's own index is unsigned
            if operation == 0:
                arguments = (
                    numbers[QUERY], numbers[ROW_BYTES], numbers[OUT], numbers[ROW_BYTES],
                    numbers[GROUP], numbers[KV], numbers[TABLES], numbers[NUM_REQUESTS],
                    numbers[WIDTH], numbers[ITEMS], numbers[NUM_ITEMS], numbers[BOUNDS],
                    numbers[NUM_PARTS], numbers[STATES],
                    numbers[SCRATCH] + part * numbers[PART_BYTES], part,
                )  # fmt: skip
                call(attend_at, arguments)
            else:
                fold(
                    numbers[OUT], numbers[ROW_BYTES], numbers[GROUP], numbers[DIM], folds,
                    numbers[STATES], part, numbers[NUM_PARTS],
                )  # fmt: skip
