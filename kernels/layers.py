"""A decoder's layers as the kernels see them: shapes, weights, and the loop over them in torch.

Knows no checkpoint, no request and no token. The loop is the specification of what a faster stack
of layers computes; with `kernels/sdpa.py` it is also the control that exactness tests must fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from radixchat.kernels import reference
from radixchat.kernels.kv_pages import KVLayer, KVPages
from radixchat.kernels.packed_matrix import Matrix
from radixchat.kernels.ragged import Ragged


@dataclass(frozen=True, slots=True)
class LayerShape:
    """What all layers share."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_eps: float


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer: grouped-query attention, then a gated feed-forward, each after a norm.

    qkv: [(heads + 2 * kv_heads) * dim, hidden], the queries' rows, then the keys', then the
    values'; out: [hidden, heads * dim]; gate_up: [2 * intermediate, hidden], the gates' rows,
    then the ups'; down: [hidden, intermediate]. Norms are vectors; q_norm and k_norm [dim] go
    together. rotates: whether queries and keys get rotary positions.
    """

    input_norm: Tensor
    qkv: Matrix
    out: Matrix
    middle_norm: Tensor
    gate_up: Matrix
    down: Matrix
    qkv_bias: Tensor | None = None
    out_bias: Tensor | None = None
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None
    rotates: bool = True


class LayerStack(Protocol):
    """All layers of a model, ready to run on one device.

    row_alignment: a step's rows must be a multiple of it; the rest are padding.
    """

    @property
    def row_alignment(self) -> int:
        """Rows come in multiples of this."""

    def __call__(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, pages: KVPages, step: Ragged
    ) -> Tensor:
        """hidden [rows, size] → [rows, size]; K and V of every real row are stored on the way.

        cos, sin: [rows, dim / 2] of the rows' positions.
        """


class TorchLayers:
    """The layers in plain torch, operation by operation; needs plain tensors as weights."""

    def __init__(
        self,
        shape: LayerShape,
        layers: Sequence[LayerWeights],
        linear: Callable[[Tensor, Tensor, Tensor | None], Tensor] = reference.linear,
        attention: Callable[[Tensor, KVLayer, Ragged], Tensor] = reference.paged_attention,
        row_alignment: int = reference.ROW_ALIGNMENT,
    ) -> None:
        self.row_alignment = row_alignment
        self._shape = shape
        self._layers = layers
        self._linear = linear
        self._attention = attention

    def __call__(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, pages: KVPages, step: Ragged
    ) -> Tensor:
        """As LayerStack."""
        for index, layer in enumerate(self._layers):
            normed = reference.rms_norm(hidden, layer.input_norm, self._shape.rms_eps)
            hidden = hidden + self._attend(layer, normed, cos, sin, pages.layer(index), step)
            normed = reference.rms_norm(hidden, layer.middle_norm, self._shape.rms_eps)
            gated = reference.swiglu(self._project(normed, layer.gate_up, None))
            hidden = hidden + self._project(gated, layer.down, None)
        return hidden

    def _attend(
        self,
        layer: LayerWeights,
        normed: Tensor,
        cos: Tensor,
        sin: Tensor,
        kv: KVLayer,
        step: Ragged,
    ) -> Tensor:
        """K and V are in the pool before attention reads them, those of these rows too."""
        shape = self._shape
        heads, kv_heads = shape.num_heads, shape.num_kv_heads
        qkv = self._project(normed, layer.qkv, layer.qkv_bias)
        by_head = qkv.view(qkv.shape[0], heads + 2 * kv_heads, shape.head_dim)
        query, key = by_head[:, :heads], by_head[:, heads : heads + kv_heads]
        value = by_head[:, heads + kv_heads :]
        if layer.q_norm is not None and layer.k_norm is not None:
            query = reference.rms_norm(query, layer.q_norm, shape.rms_eps)
            key = reference.rms_norm(key, layer.k_norm, shape.rms_eps)
        if layer.rotates:
            query, key = reference.rotate(query, cos, sin), reference.rotate(key, cos, sin)
        reference.store_kv(key, value, kv, step.slots)
        attended = self._attention(query.contiguous(), kv, step)
        return self._project(attended.flatten(1), layer.out, layer.out_bias)

    def _project(self, x: Tensor, weight: Matrix, bias: Tensor | None) -> Tensor:
        assert isinstance(weight, Tensor), "TorchLayers computes with plain tensors"
        return self._linear(x, weight, bias)
