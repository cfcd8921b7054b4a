"""Attention for a model that computes all else by itself: planned once a step, asked by layers.

`StepAttention`, and the one in plain torch, for any device, type and head size. Knows no weight
and no request.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from radixchat.kernels import reference
from radixchat.kernels.kv_pages import KVPages
from radixchat.kernels.ragged import Ragged


class StepAttention(Protocol):
    """Stores K and V of a step's rows and lets its queries read all that is stored."""

    def begin(self, pages: KVPages, step: Ragged, num_rows: int) -> None:
        """What follows belongs to this step, of num_rows rows with its padding."""

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Causal attention of one layer, its scores scaled by dim**-0.5: as query, its shape.

        query [rows, heads, dim]; key, value [rows, kv_heads, dim], which are stored before.
        """


class TorchStepAttention:
    """The operations of `kernels/reference.py`, one after another."""

    def __init__(self) -> None:
        self._step: tuple[KVPages, Ragged] | None = None

    def begin(self, pages: KVPages, step: Ragged, num_rows: int) -> None:
        """As StepAttention."""
        self._step = (pages, step)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As StepAttention."""
        assert self._step is not None, "no step has begun"
        pages, step = self._step
        kv = pages.layer(layer)
        reference.store_kv(key, value, kv, step.slots)
        return reference.paged_attention(query.contiguous(), kv, step)
