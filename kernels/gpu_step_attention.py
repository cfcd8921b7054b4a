"""`StepAttention` on a GPU: Triton's kernels, each step planned on the host as it comes.

For heads of an even size of 16 or more. Nothing is read back. Knows no weight and no request.
"""

from __future__ import annotations

import torch
from torch import Tensor

from radixchat.kernels import triton_attention, triton_kv_store
from radixchat.kernels.attention_buffers import AttentionShape, AttentionWork, GrowingWork
from radixchat.kernels.kv_pages import KVPages
from radixchat.kernels.layers import LayerShape
from radixchat.kernels.ragged import Ragged


class GpuStepAttention:
    """A StepAttention of rows of one type."""

    def __init__(self, shape: LayerShape, dtype: torch.dtype) -> None:
        self._shape, self._dtype = shape, dtype
        self._growing = GrowingWork()
        self._step: tuple[KVPages, Ragged, AttentionWork] | None = None

    def begin(self, pages: KVPages, step: Ragged, num_rows: int) -> None:
        """As StepAttention."""
        attention = AttentionShape.of(self._shape, self._dtype, pages)
        work = self._growing.fill(attention, str(pages.k.device), step, num_rows)
        self._step = (pages, step, work)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As StepAttention."""
        assert self._step is not None, "no step has begun"
        pages, step, work = self._step
        kv = pages.layer(layer)
        rows = torch.cat([part.to(self._dtype).flatten(1) for part in (query, key, value)], dim=1)
        stored = triton_kv_store.rotate_store(rows, None, None, kv, step.slots, self._shape)
        output = torch.empty_like(stored)
        triton_attention.attend(stored, kv, step.page_tables, work, output)
        return output.to(query.dtype)
