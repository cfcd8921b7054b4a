"""Weights into panels, and back: floats, GGUF blocks and int8 rounding of floats.

Owns the conversions; `kernels/cpu_panels.py` draws the layout, `kernels/cpu_blocks.py` reads the
formats. Packing the default model is part of every start, so codes change places in compiled
code, on one thread: waking the others for each of 200 small matrices costs more than it gains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numba import prange
from torch import Tensor
from torch.nn import functional

from radixchat.kernels import cpu_panels as panels
from radixchat.kernels.cpu_blocks import FLOATS, PLAIN, QUANTISED, Codes, read_blocks
from radixchat.kernels.cpu_jit import jit, parallel_jit
from radixchat.kernels.cpu_micro_kernel import STEP
from radixchat.kernels.cpu_widen import TAKE_BYTES, take, widen
from radixchat.kernels.packed_matrix import PackedMatrix

PANEL, PANEL_BYTES, IN_FEATURES = panels.PANEL, panels.PANEL_BYTES, panels.IN_FEATURES
INT8_GROUP = 32


def pack_fp32(weight: Tensor) -> PackedMatrix:
    """The numbers of weight [out, in] themselves, as fp32."""
    out_features, in_features = _sizes(weight)
    return PackedMatrix(out_features, in_features, "fp32", 0, _columns(weight.float()))


def pack_int8(weight: Tensor) -> PackedMatrix:
    """Symmetric codes of 8 bits, an fp16 scale for 32 inputs: the rule of Q8_0.

    The scale is the largest magnitude / 127; codes are rounded to the nearest, halves away from
    zero, before the scale is rounded to fp16. Raises ValueError for weights that are not finite
    or whose scale fp16 cannot hold, and for in_features that are not a multiple of 4.
    """
    _, in_features = _sizes(weight)
    if in_features % STEP:
        raise ValueError(f"no int8 weights: {in_features} inputs are not a multiple of {STEP}")
    groups = functional.pad(weight.float(), (0, -in_features % INT8_GROUP))
    groups = groups.view(groups.shape[0], -1, INT8_GROUP)
    scales = groups.abs().amax(-1) / 127
    halves = scales.half()
    if not halves.isfinite().all():
        raise ValueError(f"no int8 weights: a scale of {scales.max().item()} does not fit fp16")
    inverse = torch.where(scales == 0, 0.0, 1 / scales)
    scaled = groups * inverse.unsqueeze(-1)
    codes = torch.trunc(scaled + torch.copysign(torch.tensor(0.5), scaled)).to(torch.int8)
    return _pack(in_features, Codes(8, INT8_GROUP, codes.flatten(1), halves))


def pack_blocks(kind: str, blocks: Tensor) -> PackedMatrix:
    """GGUF blocks uint8 [out, blocks a row, bytes a block]; codes of 4 bits stay packed.

    Formats of floating point become fp32. Raises ValueError for an unknown kind.
    """
    if kind in FLOATS:
        numbers = blocks.contiguous().flatten(1).view(FLOATS[kind])
        return pack_fp32(numbers)
    if kind in PLAIN:
        return _pack_plain(blocks.contiguous(), *PLAIN[kind])
    if kind not in QUANTISED:
        known = [*FLOATS, *PLAIN, *QUANTISED]
        raise ValueError(f"no packed form for {kind}; there is one for {known}")
    codes = read_blocks(kind, blocks)
    return _pack(codes.codes.shape[1], codes)


def join(matrices: Sequence[PackedMatrix]) -> PackedMatrix:
    """One matrix with the outputs of all, in order; mixed formats widen without loss.

    Raises ValueError without a matrix or with different in_features.
    """
    if len({matrix.in_features for matrix in matrices}) != 1:
        raise ValueError(f"cannot join matrices of {[matrix.shape for matrix in matrices]}")
    alike = _alike(matrices)
    sizes = [matrix.out_features for matrix in alike]
    nibbles = alike[0].format == "uint4"
    codes = _stack([matrix.codes for matrix in alike], sizes, nibbles)
    scales = [matrix.scales for matrix in alike if matrix.scales is not None]
    minima = [matrix.minima for matrix in alike if matrix.minima is not None]
    return replace(
        alike[0],
        out_features=sum(sizes),
        codes=codes,
        scales=_stack(scales, sizes) if scales else None,
        minima=_stack(minima, sizes) if minima else None,
    )


def unpack(matrix: PackedMatrix) -> Tensor:
    """The weights that products use: fp32 [out, in], to the bit those of dequantising."""
    if matrix.format == "fp32":
        return _rows(matrix.codes, matrix.out_features)
    columns = torch.empty(matrix.codes.shape[0], matrix.in_features, PANEL)
    _widen_all(matrix.describe(), columns.shape[0], columns.data_ptr())
    return _rows(columns, matrix.out_features)


def take_rows(matrix: PackedMatrix, ids: Tensor) -> Tensor:
    """Rows ids int64 [n] of the matrix: fp32 [n, in]. Raises IndexError for an id out of range."""
    numbers = ids.numpy().astype(np.int64, copy=False)
    wrong = numbers[(numbers < 0) | (numbers >= matrix.out_features)]
    if wrong.size:
        raise IndexError(f"there is no row {wrong[0]} in a matrix of {matrix.out_features}")
    out = torch.empty(numbers.size, matrix.in_features)
    scratch = torch.empty(TAKE_BYTES, dtype=torch.uint8)
    stride = 4 * matrix.in_features
    take(matrix.describe(), numbers, out.data_ptr(), stride, 0, 1, scratch.data_ptr())
    return out


def _sizes(weight: Tensor) -> tuple[int, int]:
    if weight.dim() != 2 or not weight.numel():
        raise ValueError(f"a weight is [out, in], both at least 1, not {list(weight.shape)}")
    return weight.shape[0], weight.shape[1]


def _columns(rows: Tensor) -> Tensor:
    """[out, n] to [panels, n, 32], padded with zeros."""
    padded = functional.pad(rows, (0, 0, 0, -rows.shape[0] % PANEL))
    return padded.view(-1, PANEL, rows.shape[1]).transpose(1, 2).contiguous()


def _rows(columns: Tensor, out_features: int) -> Tensor:
    """[panels, n, 32] to [out, n]."""
    return columns.transpose(1, 2).flatten(0, 1)[:out_features].contiguous()


def _pack(in_features: int, source: Codes) -> PackedMatrix:
    """Codes [out, whole groups] as a matrix of in_features, the last group perhaps cut."""
    rows = source.codes.contiguous().view(torch.uint8)
    num_panels = -(-rows.shape[0] // PANEL)
    if source.bits == 4:
        codes = torch.empty(num_panels, rows.shape[1], PANEL // 2, dtype=torch.uint8)
        _lay_nibbles(rows.numpy(), codes.numpy())
    else:
        codes = torch.empty(num_panels, rows.shape[1], PANEL, dtype=torch.int8)
        _lay_bytes(rows.numpy(), codes.view(torch.uint8).numpy())
    return PackedMatrix(
        rows.shape[0],
        in_features,
        "uint4" if source.bits == 4 else "int8",
        source.group,
        codes,
        _columns(source.scales),
        None if source.minima is None else _columns(source.minima),
    )


def _pack_plain(blocks: Tensor, bits: int, start: int) -> PackedMatrix:
    """Blocks whose codes and fp16 numbers only change places."""
    out_features, groups, _ = blocks.shape
    num_panels = -(-out_features // PANEL)
    lanes, kind = (PANEL // 2, torch.uint8) if bits == 4 else (PANEL, torch.int8)
    # Only the last panel has padding. Torch's threads clearing all of each small matrix took ten
    # times as long as the rest.
    codes = torch.empty(num_panels, groups * INT8_GROUP, lanes, dtype=kind)
    numbers = torch.empty(start // 2, num_panels, groups, PANEL, dtype=torch.float16)
    codes[-1].zero_()
    numbers[:, -1].zero_()
    lay = _lay_plain_nibbles if bits == 4 else _lay_plain_bytes
    lay(blocks.numpy(), start, codes.view(torch.uint8).numpy())
    _lay_halves(blocks.view(torch.int16).numpy(), numbers.view(torch.int16).numpy())
    return PackedMatrix(
        out_features,
        groups * INT8_GROUP,
        "uint4" if bits == 4 else "int8",
        INT8_GROUP,
        codes,
        numbers[0],
        numbers[1] if start == 4 else None,
    )


@jit
def _lay_plain_nibbles(blocks: Any, start: int, codes: Any) -> None:
    rows, groups, _ = blocks.shape
    half, four, low, high = PANEL // 2, np.uint8(4), np.uint8(15), np.uint8(240)
    for panel in range(codes.shape[0]):
        for lane in range(min(half, rows - panel * PANEL)):
            row = panel * PANEL + lane
            other, kept = row + half, np.uint8(255)
            if other >= rows:
                other, kept = row, np.uint8(0)
            for group in range(groups):
                for k in range(half):
                    a = blocks[row, group, start + k]
                    b = blocks[other, group, start + k] & kept
                    codes[panel, group * PANEL + k, lane] = (a & low) | (b << four)
                    codes[panel, group * PANEL + half + k, lane] = (a >> four) | (b & high)


@jit
def _lay_plain_bytes(blocks: Any, start: int, codes: Any) -> None:
    for panel in range(codes.shape[0]):
        first = panel * PANEL
        for group in range(blocks.shape[1]):
            for lane in range(min(PANEL, blocks.shape[0] - first)):
                for k in range(PANEL):
                    codes[panel, group * PANEL + k, lane] = blocks[first + lane, group, start + k]


@jit
def _lay_halves(blocks: Any, numbers: Any) -> None:
    for panel in range(numbers.shape[1]):
        first = panel * PANEL
        for lane in range(min(PANEL, blocks.shape[0] - first)):
            for group in range(blocks.shape[1]):
                for number in range(numbers.shape[0]):
                    numbers[number, panel, group, lane] = blocks[first + lane, group, number]


@jit
def _lay_bytes(rows: Any, codes: Any) -> None:
    out_features, depth = rows.shape
    for panel in range(codes.shape[0]):
        real = min(PANEL, out_features - panel * PANEL)
        for k in range(depth):
            for lane in range(real):
                codes[panel, k, lane] = rows[panel * PANEL + lane, k]
            for lane in range(real, PANEL):
                codes[panel, k, lane] = 0


@jit
def _lay_nibbles(rows: Any, codes: Any) -> None:
    out_features, depth = rows.shape
    half = PANEL // 2
    for panel in range(codes.shape[0]):
        first = panel * PANEL
        low = min(half, out_features - first)
        high = min(half, max(0, out_features - first - half))
        for k in range(depth):
            for lane in range(high):
                codes[panel, k, lane] = rows[first + lane, k] | rows[
                    first + half + lane, k
                ] << np.uint8(4)
            for lane in range(high, low):
                codes[panel, k, lane] = rows[first + lane, k]
            for lane in range(low, half):
                codes[panel, k, lane] = 0


@parallel_jit
def _widen_all(matrix: Any, num_panels: int, out: int) -> None:
    depth, zero = matrix[IN_FEATURES], np.int64(0)
    for index in prange(num_panels):
        panel = np.int64(index)  # Numba's own index is unsigned
        widen(matrix, panel, zero, depth, out + panel * depth * PANEL_BYTES, zero)


def _alike(matrices: Sequence[PackedMatrix]) -> Sequence[PackedMatrix]:
    """The matrices in one form that holds them all: as they are, fp32, or int8 with fp32 scales."""
    forms = {
        (m.format, m.group, None if m.scales is None else m.scales.dtype, m.minima is None)
        for m in matrices
    }
    if len(forms) == 1:
        return matrices
    if any(matrix.format == "fp32" for matrix in matrices):
        return [pack_fp32(unpack(matrix)) for matrix in matrices]
    group = min(matrix.group for matrix in matrices)
    shifted = any(matrix.minima is not None for matrix in matrices)
    return [_as_int8(matrix, group, shifted) for matrix in matrices]


def _as_int8(matrix: PackedMatrix, group: int, shifted: bool) -> PackedMatrix:
    """The same weights with codes of 8 bits, fp32 scales of smaller groups, and minima if shifted.

    A minimum of -0.0 changes no weight, not even the sign of a zero.
    """
    assert matrix.scales is not None
    groups = -(-matrix.in_features // group)
    codes, repeats = matrix.codes, matrix.group // group
    if matrix.format == "uint4":
        codes = _split_nibbles(codes).view(torch.int8) - (8 if matrix.minima is None else 0)

    def fine(numbers: Tensor) -> Tensor:
        return numbers.float().repeat_interleave(repeats, 1)[:, :groups].contiguous()

    minima = None if matrix.minima is None else fine(matrix.minima)
    scales = fine(matrix.scales)
    if shifted and minima is None:
        minima = torch.full_like(scales, -0.0)
    codes = codes[:, : groups * group].contiguous()
    return PackedMatrix(*matrix.shape, "int8", group, codes, scales, minima)


def _stack(parts: Sequence[Tensor], sizes: Sequence[int], nibbles: bool = False) -> Tensor:
    """Panels of several matrices with these out_features as panels of one."""
    if all(size % PANEL == 0 for size in sizes[:-1]):
        return torch.cat(list(parts))
    if nibbles:
        return _join_nibbles(_stack([_split_nibbles(part) for part in parts], sizes))
    return _columns(torch.cat([_rows(part, size) for part, size in zip(parts, sizes, strict=True)]))


def _split_nibbles(codes: Tensor) -> Tensor:
    return torch.cat([codes & 15, codes >> 4], dim=-1)


def _join_nibbles(codes: Tensor) -> Tensor:
    low, high = codes.chunk(2, dim=-1)
    return low | high << 4
