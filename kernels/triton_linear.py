# ruff: noqa: N803 - constants of a kernel are in capitals, as in Triton's own sources
"""Triton: products whose rows do not depend on how many rows there are.

Every output is one chain of additions over the inputs in order: K is never split, and the tile is
chosen by the matrix alone, so a row goes through the same instructions in a decode step and in a
prefill (a tile of other height may take another instruction, with another order of additions
inside: mma of 16 rows or wgmma of 64). What that costs is the price of `exact` on a GPU; without it
torch's own product is used. Knows no layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True, slots=True)
class LinearTile:
    """How one matrix is cut: rows, outputs and inputs a round, warps and stages of a program."""

    rows: int
    outputs: int
    inputs: int
    num_warps: int
    num_stages: int


def linear_tile(out_features: int, dtype: torch.dtype) -> LinearTile:
    """The tile of a matrix: a function of the matrix, never of the number of rows.

    64 rows are the least that Hopper's wgmma takes, so that wgmma serves all row counts; rows that
    are not there cost no memory, and a decode step is bound by reading the weights. Few outputs
    take narrow tiles: 576 outputs are 18 programs of 32. Chosen by that reasoning and by what the
    compiler reports (no spills, shared memory below 100 KiB, so that two programs share a
    multiprocessor); not measured on a GPU.
    """
    if dtype == torch.float32:
        return LinearTile(rows=32, outputs=32, inputs=32, num_warps=4, num_stages=3)
    if out_features < 4096:
        return LinearTile(rows=64, outputs=32, inputs=128, num_warps=4, num_stages=3)
    return LinearTile(rows=64, outputs=64, inputs=128, num_warps=4, num_stages=3)


# A launch would otherwise be compiled anew for one row, and for multiples of 16.
@triton.jit(do_not_specialize=["rows"])
def linear_kernel(
    x: tl.tensor,
    x_stride: tl.tensor,
    weight: tl.tensor,
    weight_stride: tl.tensor,
    bias: tl.tensor,
    output: tl.tensor,
    rows: tl.tensor,
    out_features: tl.tensor,
    in_features: tl.tensor,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
    BIAS: tl.constexpr,
    OPERAND: tl.constexpr,
) -> None:
    """One tile of outputs a program; neighbours in the grid share the weights.

    OPERAND: the type that both factors are multiplied in.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    k = tl.arange(0, INPUTS)
    x_at = x + row.to(tl.int64)[:, None] * x_stride + k[None, :]
    weight_at = weight + column.to(tl.int64)[None, :] * weight_stride + k[:, None]
    total = tl.zeros((ROWS, OUTPUTS), tl.float32)
    for start in range(0, in_features, INPUTS):
        left = in_features - start
        first = tl.load(x_at, mask=(row[:, None] < rows) & (k[None, :] < left), other=0.0)
        second = tl.load(
            weight_at, mask=(column[None, :] < out_features) & (k[:, None] < left), other=0.0
        )
        total = tl.dot(first.to(OPERAND), second.to(OPERAND), total, input_precision="ieee")
        x_at += INPUTS
        weight_at += INPUTS
    if BIAS:
        added = tl.load(bias + column, mask=column < out_features, other=0.0)
        total += added.to(tl.float32)[None, :]
    at = output + row.to(tl.int64)[:, None] * out_features + column[None, :]
    inside = (row[:, None] < rows) & (column[None, :] < out_features)
    tl.store(at, total.to(output.dtype.element_ty), mask=inside)


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """x [rows, in] times weight [out, in] transposed, plus bias [out]: [rows, out].

    Added up in fp32 and rounded once, to dtype, or to x's where that is None.
    """
    rows, in_features = x.shape
    out_features = weight.shape[0]
    assert weight.shape[1] == in_features, (x.shape, weight.shape)
    assert x.stride(1) == weight.stride(1) == 1, (x.stride(), weight.stride())
    output = torch.empty((rows, out_features), dtype=dtype or x.dtype, device=x.device)
    tile = linear_tile(out_features, x.dtype)
    grid = triton.cdiv(rows, tile.rows), triton.cdiv(out_features, tile.outputs)
    if rows:
        linear_kernel[grid](
            *(x, x.stride(0), weight, weight.stride(0), weight if bias is None else bias, output),
            *(rows, out_features, in_features),
            ROWS=tile.rows,
            OUTPUTS=tile.outputs,
            INPUTS=tile.inputs,
            BIAS=bias is not None,
            OPERAND=_operand(x),
            num_warps=tile.num_warps,
            num_stages=tile.num_stages,
        )
    return output


def _operand(x: Tensor) -> tl.dtype:
    """Their own; on the CPU, in the interpreter, whose dot takes bf16 for integers, fp32."""
    if x.dtype == torch.float32 or (x.dtype == torch.bfloat16 and x.device.type == "cpu"):
        return tl.float32
    return {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}[x.dtype]
