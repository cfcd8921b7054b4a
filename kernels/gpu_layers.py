"""A decoder's layers on a GPU: each step's attention planned on the host, then launched.

Two ways through the same weights: `GpuLayers` takes steps of any shape and plans each as it comes;
what it makes with `planned` takes decode steps whose plan was filled in beforehand, so that their
launches are always the same and can be a graph. Knows no checkpoint, no request and no graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from radixchat.kernels import triton_attention, triton_linear
from radixchat.kernels.attention_buffers import AttentionShape, AttentionWork, StepLimits
from radixchat.kernels.attention_work import SharedPrefix
from radixchat.kernels.kv_pages import KVLayer, KVPages
from radixchat.kernels.layers import LayerShape, LayerWeights
from radixchat.kernels.ragged import Ragged
from radixchat.kernels.triton_layers import TritonLayers


class PlannedLayers:
    """The layers for steps of at most so many rows, one a request, each planned before it runs."""

    row_alignment = 1

    def __init__(
        self, shape: LayerShape, layers: Sequence[LayerWeights], work: AttentionWork
    ) -> None:
        self._work = work
        linear = triton_linear.linear if work.exact else functional.linear
        self._layers = TritonLayers(shape, layers, linear, self._attend)

    def plan(self, step: Ragged, num_rows: int, shared: Sequence[SharedPrefix] = ()) -> None:
        """Plan the step that is run next, of num_rows rows with its padding."""
        self._work.fill(step, num_rows, shared)

    def __call__(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, pages: KVPages, step: Ragged
    ) -> Tensor:
        """As LayerStack, by the plan."""
        return self._layers(hidden, cos, sin, pages, step)

    def _attend(self, query: Tensor, kv: KVLayer, step: Ragged) -> Tensor:
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        triton_attention.attend(query, kv, step.page_tables, self._work, output)
        return output


class GpuLayers:
    """A LayerStack of plain tensors on one device; exact: a row's bits never depend on others."""

    row_alignment = 1

    def __init__(self, shape: LayerShape, layers: Sequence[LayerWeights], *, exact: bool) -> None:
        self._shape = shape
        self._layers = layers
        self.exact = exact
        self._planned: PlannedLayers | None = None  # of the largest step so far
        self._max_rows = self._max_requests = 0

    def __call__(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, pages: KVPages, step: Ragged
    ) -> Tensor:
        """As LayerStack."""
        rows = hidden.shape[0]
        if self._planned is None or rows > self._max_rows or step.num_requests > self._max_requests:
            # Doubling: a few steps make it as large as it will ever be.
            self._max_rows = max(rows, 2 * self._max_rows)
            self._max_requests = max(step.num_requests, 2 * self._max_requests)
            limits = StepLimits(self._max_rows, self._max_requests, cascade=False)
            self._planned = self._with_work(pages, limits)
        self._planned.plan(step, rows)
        return self._planned(hidden, cos, sin, pages, step)

    def planned(self, pages: KVPages, max_rows: int, *, cascade: bool) -> PlannedLayers:
        """For decode steps of at most max_rows rows, always launched alike.

        cascade: plans may have shared prefixes, at the price of a launch that has no work where
        there are none.
        """
        return self._with_work(pages, StepLimits(max_rows, max_rows, fixed=True, cascade=cascade))

    def _with_work(self, pages: KVPages, limits: StepLimits) -> PlannedLayers:
        kv = pages.layer(0)
        shape, dtype = self._shape, self._layers[0].input_norm.dtype
        attention = AttentionShape(
            shape.num_heads, shape.num_kv_heads, shape.head_dim, kv.page_size, dtype, kv.k.dtype
        )
        work = AttentionWork(attention, limits, str(kv.k.device), exact=self.exact)
        return PlannedLayers(shape, self._layers, work)
