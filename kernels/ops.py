"""What the engine computes with: the only kernel module that it imports.

Chooses the implementation of a decoder's layers by device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from radixchat.kernels import sdpa
from radixchat.kernels.kv_pages import KVPages, empty_pages
from radixchat.kernels.layers import LayerShape, LayerStack, LayerWeights, TorchLayers
from radixchat.kernels.packed_matrix import Matrix, PackedMatrix
from radixchat.kernels.packing import join, pack_blocks, pack_fp32, pack_int8, take_rows, unpack
from radixchat.kernels.ragged import Ragged, ragged
from radixchat.kernels.reference import ROW_ALIGNMENT, paged_attention, rms_norm, store_kv
from radixchat.kernels.self_test import exact_here

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
    "exact_here",
    "join",
    "joined",
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
    shape: LayerShape,
    layers: Sequence[LayerWeights],
    *,
    exact: bool = True,
    threads: int | None = None,
    compiled: bool = True,
) -> LayerStack:
    """The layers for the device of the weights; on the CPU Numba's where it can compute them.

    threads: of the CPU, None for all that Numba has. exact: False is torch's own arithmetic.
    compiled: False is `TorchLayers` in any case.
    """
    if compiled and exact and str(layers[0].input_norm.device) == "cpu" and _fits(shape, layers):
        from radixchat.kernels.cpu_layers import CpuLayers  # Numba is slow to import

        return CpuLayers(shape, layers, threads)
    plain = [_dense(layer) for layer in layers]
    if exact:
        return TorchLayers(shape, plain)
    return TorchLayers(shape, plain, sdpa.linear, sdpa.paged_attention)


def _fits(shape: LayerShape, layers: Sequence[LayerWeights]) -> bool:
    """Whether the vectors of the CPU's kernels, of 16 numbers, go into head and feed-forward."""
    whole = shape.head_dim % 16 == 0 and layers[0].down.shape[1] % 16 == 0
    return whole and layers[0].input_norm.dtype == torch.float32


def _dense(layer: LayerWeights) -> LayerWeights:
    def plain(matrix: Matrix) -> Tensor:
        return unpack(matrix) if isinstance(matrix, PackedMatrix) else matrix

    return replace(
        layer,
        qkv=plain(layer.qkv),
        out=plain(layer.out),
        gate_up=plain(layer.gate_up),
        down=plain(layer.down),
    )


def embed(tokens: Tensor, matrix: Matrix) -> Tensor:
    """Rows of the embedding [vocab, hidden] for tokens int64 [rows]."""
    if isinstance(matrix, PackedMatrix):
        return take_rows(matrix, tokens)
    return functional.embedding(tokens, matrix)


def linear(x: Tensor, matrix: Matrix) -> Tensor:
    """x [rows, in] times the matrix [out, in] transposed: fp32 [rows, out]."""
    if isinstance(matrix, PackedMatrix):
        from radixchat.kernels.cpu_product import product  # Numba is slow to import

        return product(x, matrix)
    rows = x.shape[0]
    padded = functional.pad(x, (0, 0, 0, -rows % ROW_ALIGNMENT))
    return functional.linear(padded, matrix)[:rows].float()


def joined(matrices: Sequence[Matrix]) -> Matrix:
    """One matrix with the outputs of all, in order; all packed or none."""
    packed = [matrix for matrix in matrices if isinstance(matrix, PackedMatrix)]
    if packed:
        assert len(packed) == len(matrices)
        return join(packed)
    return torch.cat([matrix for matrix in matrices if isinstance(matrix, Tensor)])
