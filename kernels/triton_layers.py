"""A decoder's layers in Triton: about ten launches a layer, nothing read back or waited for.

Knows no checkpoint, no request and no token. Which product and which attention it runs is the
caller's choice: those of Triton give a row the same bits in every batch, torch's own product is
faster. A step can be captured in a CUDA graph: what is launched depends on shapes alone, as far as
the attention's launches do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from radixchat.kernels import triton_elementwise, triton_kv_store
from radixchat.kernels.kv_pages import KVLayer, KVPages
from radixchat.kernels.layers import LayerShape, LayerWeights
from radixchat.kernels.ragged import Ragged


class TritonLayers:
    """The layers, eagerly, one after another; a `LayerStack` of plain tensors on one device."""

    def __init__(
        self,
        shape: LayerShape,
        layers: Sequence[LayerWeights],
        linear: Callable[[Tensor, Tensor, Tensor | None], Tensor],
        attention: Callable[[Tensor, KVLayer, Ragged], Tensor],
    ) -> None:
        """linear: x, weight, bias as `reference.linear`; attention as `reference.paged_attention`.

        Raises TypeError for weights that are packed: those are the CPU's.
        """
        self._shape = shape
        self._layers = layers
        self._matrices = [_matrices(layer) for layer in layers]
        self._linear = linear
        self._attention = attention

    def __call__(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, pages: KVPages, step: Ragged
    ) -> Tensor:
        """As LayerStack; cos, sin contiguous."""
        if not self._layers:
            return hidden
        eps, linear = self._shape.rms_eps, self._linear
        normed = triton_elementwise.rms_norm(hidden, self._layers[0].input_norm, eps)
        hidden = hidden.contiguous()
        for index, layer in enumerate(self._layers):
            qkv_weight, out_weight, gate_up_weight, down_weight = self._matrices[index]
            kv = pages.layer(index)
            query = triton_kv_store.rotate_store(
                linear(normed, qkv_weight, layer.qkv_bias),
                (cos, sin) if layer.rotates else None,
                _norms(layer),
                kv,
                step.slots,
                self._shape,
            )
            # K and V of these rows are in the pool before attention reads it.
            attended = self._attention(query, kv, step).flatten(1)
            attended = linear(attended, out_weight, layer.out_bias)
            normed, hidden = triton_elementwise.add_rms_norm(
                attended, hidden, layer.middle_norm, eps
            )
            gated = triton_elementwise.swiglu(linear(normed, gate_up_weight, None))
            added = linear(gated, down_weight, None)
            if index + 1 == len(self._layers):
                return hidden + added
            following = self._layers[index + 1].input_norm
            normed, hidden = triton_elementwise.add_rms_norm(added, hidden, following, eps)
        raise AssertionError("the last layer returns")


def _norms(layer: LayerWeights) -> tuple[Tensor, Tensor] | None:
    if layer.q_norm is None or layer.k_norm is None:
        return None
    return layer.q_norm, layer.k_norm


def _matrices(layer: LayerWeights) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """qkv, out, gate_up and down."""
    found = []
    for matrix in (layer.qkv, layer.out, layer.gate_up, layer.down):
        if not isinstance(matrix, Tensor):
            raise TypeError(f"Triton computes with plain tensors, not with {type(matrix).__name__}")
        found.append(matrix)
    qkv, out, gate_up, down = found
    return qkv, out, gate_up, down
