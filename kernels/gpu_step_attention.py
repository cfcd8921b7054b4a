"""`StepAttention` on a GPU: Triton's kernels, each step planned on the host as it comes.

For heads of an even size of 16 or more. Nothing is read back. Knows no weight and no request.
"""

from __future__ import annotations

import torch
from torch import Tensor

from radixchat.kernels import triton_attention, triton_kv_store
from radixchat.kernels.attention_buffers import AttentionShape, AttentionWork, StepLimits
from radixchat.kernels.kv_pages import KVPages
from radixchat.kernels.layers import LayerShape
from radixchat.kernels.ragged import Ragged


class GpuStepAttention:
    """A StepAttention of rows of one type."""

    def __init__(self, shape: LayerShape, dtype: torch.dtype) -> None:
        self._shape, self._dtype = shape, dtype
        self._step: tuple[KVPages, Ragged] | None = None
        self._work: AttentionWork | None = None  # of the largest step so far
        self._max_rows = self._max_requests = 0

    def begin(self, pages: KVPages, step: Ragged, num_rows: int) -> None:
        """As StepAttention."""
        work, kv = self._work, pages.layer(0)
        grows = num_rows > self._max_rows or step.num_requests > self._max_requests
        if work is None or grows or kv.k.dtype != work.shape.kv_dtype:
            # Doubling: a few steps make it as large as it will ever be.
            self._max_rows = max(num_rows, 2 * self._max_rows)
            self._max_requests = max(step.num_requests, 2 * self._max_requests)
            shape = self._shape
            attention = AttentionShape(
                *(shape.num_heads, shape.num_kv_heads, shape.head_dim, kv.page_size),
                *(self._dtype, kv.k.dtype),
            )
            limits = StepLimits(self._max_rows, self._max_requests, cascade=False)
            work = self._work = AttentionWork(attention, limits, str(kv.k.device))
        work.fill(step, num_rows)
        self._step = (pages, step)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As StepAttention."""
        assert self._step is not None, "no step has begun"
        assert self._work is not None
        pages, step = self._step
        kv = pages.layer(layer)
        rows = torch.cat([part.to(self._dtype).flatten(1) for part in (query, key, value)], dim=1)
        stored = triton_kv_store.rotate_store(rows, None, None, kv, step.slots, self._shape)
        output = torch.empty_like(stored)
        triton_attention.attend(stored, kv, step.page_tables, self._work, output)
        return output.to(query.dtype)
