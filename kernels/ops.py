"""What the engine computes with: the only kernel module that it imports.

Chooses the implementation of a decoder's layers by device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from radixchat.kernels import sdpa
from radixchat.kernels.attention_work import SharedPrefix
from radixchat.kernels.decode_stack import DecodeStack, PlansAhead, SelfPlanned
from radixchat.kernels.kv_pages import KVPages, empty_pages
from radixchat.kernels.layers import LayerShape, LayerStack, LayerWeights, TorchLayers
from radixchat.kernels.packed_matrix import Matrix, PackedMatrix
from radixchat.kernels.packing import join, pack_blocks, pack_fp32, pack_int8, take_rows, unpack
from radixchat.kernels.ragged import Ragged, ragged
from radixchat.kernels.reference import ROW_ALIGNMENT, paged_attention, rms_norm, store_kv
from radixchat.kernels.self_test import exact_here
from radixchat.kernels.shared_prefix import shared_prefixes
from radixchat.kernels.step_attention import StepAttention, TorchStepAttention
from radixchat.kernels.warm_up import compiled_folder, warm_up

__all__ = [
    "ROW_ALIGNMENT",
    "DecodeStack",
    "KVPages",
    "LayerShape",
    "LayerStack",
    "LayerWeights",
    "Matrix",
    "PackedMatrix",
    "Ragged",
    "SharedPrefix",
    "StepAttention",
    "compiled_folder",
    "decode_prefixes",
    "decode_stacks",
    "draw_tokens",
    "embed",
    "empty_pages",
    "exact_here",
    "join",
    "joined",
    "layer_stack",
    "linear",
    "logits",
    "pack_blocks",
    "pack_fp32",
    "pack_int8",
    "paged_attention",
    "ragged",
    "rms_norm",
    "step_attention",
    "store_kv",
    "take_rows",
    "unpack",
    "warm_up",
]


def layer_stack(
    shape: LayerShape,
    layers: Sequence[LayerWeights],
    *,
    exact: bool = True,
    threads: int | None = None,
    compiled: bool = True,
    device: str = "cpu",
) -> LayerStack:
    """The layers for a device; on the CPU Numba's where it can compute them, on a GPU Triton's.

    threads: of the CPU, None for all that Numba has. exact: False is torch's own arithmetic where
    that is faster. compiled: False is `TorchLayers` in any case.
    """
    if compiled and device == "cuda":
        from radixchat.kernels.gpu_layers import GpuLayers  # Triton is not everywhere

        return GpuLayers(shape, layers, exact=exact)
    if compiled and exact and _fits(shape, layers):
        from radixchat.kernels.cpu_layers import CpuLayers  # Numba is slow to import

        return CpuLayers(shape, layers, threads)
    plain = [_dense(layer) for layer in layers]
    if exact:
        return TorchLayers(shape, plain)
    return TorchLayers(shape, plain, sdpa.linear, sdpa.paged_attention, row_alignment=1)


def _fits(shape: LayerShape, layers: Sequence[LayerWeights]) -> bool:
    """Whether the vectors of the CPU's kernels, of 16 numbers, go into head and feed-forward."""
    if str(layers[0].input_norm.device) != "cpu":
        return False
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


def step_attention(
    shape: LayerShape, dtype: torch.dtype, *, threads: int | None = None, device: str = "cpu"
) -> StepAttention:
    """Attention alone, for a model that computes all else in dtype on the device.

    On the CPU Numba's where it can compute it, on a GPU Triton's, else torch's. threads: of the
    CPU, None for all that Numba has.
    """
    if device == "cuda" and shape.head_dim % 2 == 0 and shape.head_dim >= 16:
        from radixchat.kernels.gpu_step_attention import GpuStepAttention  # not everywhere

        return GpuStepAttention(shape, dtype)
    if device == "cpu" and shape.head_dim % 16 == 0 and dtype == torch.float32:
        from radixchat.kernels.cpu_step_attention import CpuStepAttention  # slow to import

        return CpuStepAttention(shape, threads)
    return TorchStepAttention()


def decode_stacks(stack: LayerStack, pages: KVPages, max_rows: int) -> tuple[DecodeStack, ...]:
    """What decode graphs of at most max_rows rows are made of: one that reads each row's pages, and
    behind it, if there is one, one that reads once what rows share.
    """
    if not isinstance(stack, PlansAhead):
        return (SelfPlanned(stack),)
    kinds = (False,) if stack.exact else (False, True)
    return tuple(stack.planned(pages, max_rows, cascade=cascade) for cascade in kinds)


def decode_prefixes(
    tables: NDArray[np.int32], lengths: NDArray[np.int32], page_size: int
) -> list[SharedPrefix]:
    """What rows of a decode step read in common; tables [rows, pages], lengths [rows]."""
    return shared_prefixes(tables, np.arange(len(lengths) + 1, dtype=np.int32), lengths, page_size)


def draw_tokens(logits: Tensor, counts: Tensor, numbers: Tensor) -> Tensor:
    """A token for each row of logits, on their device: int64 [rows], -1 for a row that has none.

    counts: int64 [3, rows], seed, position and top_k; numbers: fp32 [3, rows], temperature, top_p
    and min_p.
    """
    from radixchat.kernels.triton_sampling import SamplingRows, sample  # not everywhere

    return sample(logits, SamplingRows(counts, numbers))


def logits(
    hidden: Tensor, norm: Tensor, eps: float, head: Matrix, *, exact: bool, device: str
) -> Tensor:
    """fp32 [rows, vocab] of what comes out of the layers; device, exact: as in `layer_stack`."""
    if device == "cuda":
        from radixchat.kernels import triton_elementwise, triton_linear  # not everywhere

        assert isinstance(head, Tensor)
        normed = triton_elementwise.rms_norm(hidden, norm, eps)
        if exact:
            return triton_linear.linear(normed, head, dtype=torch.float32)
        return functional.linear(normed, head).float()
    return linear(rms_norm(hidden, norm, eps), head)


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
