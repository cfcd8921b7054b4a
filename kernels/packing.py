"""Packing of weights, as the engine calls it: Numba is imported when something is packed.

A GPU computes with plain tensors, and its machine may be without Numba. `kernels/cpu_pack.py` does
the work and says what each function takes and raises.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from radixchat.kernels.packed_matrix import PackedMatrix


def pack_fp32(weight: Tensor) -> PackedMatrix:
    """The numbers of weight [out, in] themselves."""
    from radixchat.kernels import cpu_pack

    return cpu_pack.pack_fp32(weight)


def pack_int8(weight: Tensor) -> PackedMatrix:
    """Weight [out, in] in codes of 8 bits. Raises ValueError for what has no finite scale."""
    from radixchat.kernels import cpu_pack

    return cpu_pack.pack_int8(weight)


def pack_blocks(kind: str, blocks: Tensor) -> PackedMatrix:
    """GGUF blocks uint8 [out, blocks a row, bytes a block], without rounding."""
    from radixchat.kernels import cpu_pack

    return cpu_pack.pack_blocks(kind, blocks)


def join(matrices: Sequence[PackedMatrix]) -> PackedMatrix:
    """One matrix with the outputs of all, in order."""
    from radixchat.kernels import cpu_pack

    return cpu_pack.join(matrices)


def unpack(matrix: PackedMatrix) -> Tensor:
    """The weights that products use, fp32 [out, in]."""
    from radixchat.kernels import cpu_pack

    return cpu_pack.unpack(matrix)


def take_rows(matrix: PackedMatrix, ids: Tensor) -> Tensor:
    """Rows ids int64 [n] of the matrix, fp32 [n, in]."""
    from radixchat.kernels import cpu_pack

    return cpu_pack.take_rows(matrix, ids)
