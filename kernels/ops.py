"""What the engine computes with: the only kernel module that it imports.

Chooses the implementation of a decoder's layers by device.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional

from radixchat.kernels import sdpa
from radixchat.kernels.kv_pages import KVPages, empty_pages
from radixchat.kernels.layers import LayerShape, LayerStack, LayerWeights, TorchLayers
from radixchat.kernels.packed_matrix import Matrix, PackedMatrix
from radixchat.kernels.packing import join, pack_blocks, pack_fp32, pack_int8, take_rows, unpack
from radixchat.kernels.ragged import Ragged, ragged
from radixchat.kernels.reference import ROW_ALIGNMENT, paged_attention, rms_norm, store_kv

__all__ = [
    "ROW_ALIGNMENT",
    "KVPages",
    "LayerShape",
    "LayerStack",
    "LayerWeights",
    "Matrix",
    "PackedMatrix",
    "Ragged",
    "embed",
    "empty_pages",
    "join",
    "layer_stack",
    "linear",
    "pack_blocks",
    "pack_fp32",
    "pack_int8",
    "paged_attention",
    "ragged",
    "rms_norm",
    "store_kv",
    "take_rows",
    "unpack",
]


def layer_stack(
    shape: LayerShape, layers: Sequence[LayerWeights], *, exact: bool = True
) -> LayerStack:
    """The fastest stack for the device of the weights."""
    if exact:
        return TorchLayers(shape, layers)
    return TorchLayers(shape, layers, sdpa.linear, sdpa.paged_attention)


def embed(tokens: Tensor, matrix: Matrix) -> Tensor:
    """Rows of the embedding [vocab, hidden] for tokens int64 [rows]."""
    assert isinstance(matrix, Tensor)
    return functional.embedding(tokens, matrix)


def linear(x: Tensor, matrix: Matrix) -> Tensor:
    """x [rows, in] times the matrix [out, in] transposed: fp32 [rows, out]."""
    assert isinstance(matrix, Tensor)
    rows = x.shape[0]
    padded = functional.pad(x, (0, 0, 0, -rows % ROW_ALIGNMENT))
    return functional.linear(padded, matrix)[:rows].float()
