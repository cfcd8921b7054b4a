"""`CpuPieces`: the CPU's kernels one after another, called from Python: a stack of one layer.

The stack that the engine runs compiles them into one function, which takes long; a test that
changes one of them wants only that one compiled again.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from radixchat.kernels.kv_pages import KVPages
from radixchat.kernels.layers import LayerShape, LayerWeights
from radixchat.kernels.packed_matrix import Matrix
from radixchat.kernels.ragged import Ragged

PIECES = ("cpu_product", "cpu_attention", "cpu_rotary", "cpu_elementwise", "cpu_kv")


class CpuPieces:
    """A LayerStack over the modules PIECES, or what a seeded bug has made of them."""

    row_alignment = 1

    def __init__(
        self, shape: LayerShape, layer: LayerWeights, pieces: list[ModuleType], num_parts: int
    ) -> None:
        self._shape = shape
        self._layer = layer
        self._product, self._attention, self._rotary, self._elementwise, self._kv = pieces
        self._num_parts = num_parts

    def __call__(
        self, hidden: Tensor, cos: Tensor, sin: Tensor, pages: KVPages, step: Ragged
    ) -> Tensor:
        """As LayerStack."""
        shape, layer, kv = self._shape, self._layer, pages.layer(0)
        qkv = self._multiply(self._norm(hidden, layer.input_norm), layer.qkv)
        rows, width = qkv.shape
        cos, sin = cos.contiguous(), sin.contiguous()
        self._rotary.rotate_store(
            qkv.data_ptr(), 4 * width, 0, rows, cos.data_ptr(), sin.data_ptr(), 0, 0,
            shape.rms_eps, shape.num_heads, self._kv.describe_kv(kv), step.slots.numpy(),
        )  # fmt: skip
        query = qkv.view(rows, -1, shape.head_dim)[:, : shape.num_heads]
        attended = self._attention.paged_attention(query, kv, step, self._num_parts)
        hidden = hidden + self._multiply(attended.flatten(1), layer.out)
        gated = self._multiply(self._norm(hidden, layer.middle_norm), layer.gate_up)
        bytes_, size = 4 * gated.shape[1], gated.shape[1] // 2
        at = gated.data_ptr()
        self._elementwise.swiglu_rows(at, bytes_, at, bytes_, rows, size)
        return hidden + self._multiply(gated[:, :size], layer.down)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        out, (rows, size) = torch.empty_like(x), x.shape
        self._elementwise.rms_norm_rows(
            x.data_ptr(), 4 * size, weight.data_ptr(), self._shape.rms_eps, out.data_ptr(),
            4 * size, rows, size,
        )  # fmt: skip
        return out

    def _multiply(self, x: Tensor, matrix: Matrix) -> Tensor:
        product: Tensor = self._product.product(x, matrix)
        return product
