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
from radixchat.kernels.attention_buffers import (
    AttentionShape,
    AttentionWork,
    GrowingWork,
    StepLimits,
)
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
        self.work = work
        linear = triton_linear.linear if work.exact else functional.linear
        self._layers = TritonLayers(shape, layers, linear, self._attend)

    def plan(self, step: Ragged, num_rows: int, shared: Sequence[SharedPrefix] = ()) -> None:
        """Plan the step that is run next, of num_rows rows with its padding."""
        self.work.fill(step, num_rows, shared)

    def __call__(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, pages: KVPages, step: Ragged
    ) -> Tensor:
        """As LayerStack, by the plan."""
        return self._layers(hidden, cos, sin, pages, step)

    def _attend(self, query: Tensor, kv: KVLayer, step: Ragged) -> Tensor:
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        triton_attention.attend(query, kv, step.page_tables, self.work, output)
        return output


class GpuLayers:
    """A LayerStack of plain tensors on one device; exact: a row's bits never depend on others."""

    row_alignment = 1

    def __init__(self, shape: LayerShape, layers: Sequence[LayerWeights], *, exact: bool) -> None:
        self._shape = shape
        self._layers = layers
        self.exact = exact
        self._growing = GrowingWork(exact=exact)
        self._planned: PlannedLayers | None = None

    def __call__(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, pages: KVPages, step: Ragged
    ) -> Tensor:
        """As LayerStack."""
        device = str(pages.k.device)
        work = self._growing.fill(self._attention(pages), device, step, hidden.shape[0])
        if self._planned is None or self._planned.work is not work:
            self._planned = PlannedLayers(self._shape, self._layers, work)
        return self._planned(hidden, cos, sin, pages, step)

    def planned(self, pages: KVPages, max_rows: int, *, cascade: bool) -> PlannedLayers:
        """For decode steps of at most max_rows rows, always launched alike.

        cascade: plans may have shared prefixes, at the price of a launch that has no work where
        there are none.
        """
        limits = StepLimits(max_rows, max_rows, fixed=True, cascade=cascade)
        device = str(pages.k.device)
        work = AttentionWork(self._attention(pages), limits, device, exact=self.exact)
        return PlannedLayers(self._shape, self._layers, work)

    def _attention(self, pages: KVPages) -> AttentionShape:
        return AttentionShape.of(self._shape, self._layers[0].input_norm.dtype, pages)
