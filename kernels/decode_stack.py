"""What a decode graph is made of: layers whose steps are planned before they are replayed.

On a GPU `gpu_layers.PlannedLayers`; a stack that plans a step by itself needs nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from radixchat.kernels.attention_work import SharedPrefix
from radixchat.kernels.kv_pages import KVPages
from radixchat.kernels.layers import LayerStack
from radixchat.kernels.ragged import Ragged


class DecodeStack(LayerStack, Protocol):
    """A LayerStack for steps of one row a request, launched alike whatever their numbers are."""

    def plan(self, step: Ragged, num_rows: int, shared: Sequence[SharedPrefix] = ()) -> None:
        """Plan the step that is run next, of num_rows rows with its padding."""


@runtime_checkable
class PlansAhead(Protocol):
    """A stack that can have its decode steps planned beforehand.

    exact: a row's bits never depend on others.
    """

    @property
    def exact(self) -> bool:
        """Then nobody's pages are read for several at once, which adds up in another order."""

    def planned(self, pages: KVPages, max_rows: int, *, cascade: bool) -> DecodeStack:
        """For steps of at most max_rows rows; cascade: plans may have shared prefixes."""


class SelfPlanned:
    """A stack that plans each step as it comes."""

    def __init__(self, stack: LayerStack) -> None:
        self._stack = stack
        self.row_alignment = stack.row_alignment

    def plan(self, step: Ragged, num_rows: int, shared: Sequence[SharedPrefix] = ()) -> None:
        """As DecodeStack: nothing; each request reads its own pages."""

    def __call__(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, pages: KVPages, step: Ragged
    ) -> Tensor:
        """As LayerStack."""
        return self._stack(hidden, cos, sin, pages, step)
