"""Triton: what is done to each row by itself: norms, and the gate of a feed-forward.

A program computes one row, or a fixed part of one, whatever else the launch computes: a row's bits
never depend on how many there are. Rounds where `kernels/reference.py` rounds. Knows no page.
"""

# ruff: noqa: N803 - constants of a kernel are in capitals, as in Triton's own sources
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

# Elements of a row that one program of swiglu takes: a prefill's rows give programs enough, and
# a decode step of one row spreads over several multiprocessors.
_GATE_BLOCK = 1024


@triton.jit
def rms_norm_kernel(
    x: tl.tensor,
    x_stride: tl.tensor,
    weight: tl.tensor,
    output: tl.tensor,
    size: tl.tensor,
    eps: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """One row a program; BLOCK: the power of two that holds a row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < size
    wide = tl.load(x + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / size + eps)
    dtype = output.dtype.element_ty
    weights = tl.load(weight + columns, mask=inside, other=0.0)
    normed = weights.to(tl.float32) * (wide * scale).to(dtype).to(tl.float32)
    tl.store(output + row * size + columns, normed.to(dtype), mask=inside)


@triton.jit
def add_rms_norm_kernel(
    x: tl.tensor,
    residual: tl.tensor,
    weight: tl.tensor,
    output: tl.tensor,
    total: tl.tensor,
    size: tl.tensor,
    eps: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """As rms_norm_kernel, of x + residual; the sum is rounded before it is used, and kept."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < size
    dtype = output.dtype.element_ty
    first = tl.load(x + row * size + columns, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(residual + row * size + columns, mask=inside, other=0.0).to(tl.float32)
    summed = (first + second).to(dtype)
    tl.store(total + row * size + columns, summed, mask=inside)
    wide = summed.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / size + eps)
    weights = tl.load(weight + columns, mask=inside, other=0.0)
    normed = weights.to(tl.float32) * (wide * scale).to(dtype).to(tl.float32)
    tl.store(output + row * size + columns, normed.to(dtype), mask=inside)


@triton.jit
def swiglu_kernel(
    gate_up: tl.tensor, output: tl.tensor, size: tl.tensor, BLOCK: tl.constexpr
) -> None:
    """BLOCK elements of one row a program."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < size
    dtype = output.dtype.element_ty
    gate = tl.load(gate_up + row * 2 * size + columns, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + (row * 2 + 1) * size + columns, mask=inside, other=0.0).to(tl.float32)
    decay = tl.exp(-tl.abs(gate))  # of either sign without overflow
    activated = (gate * tl.where(gate < 0, decay, 1.0) / (1.0 + decay)).to(dtype).to(tl.float32)
    tl.store(output + row * size + columns, (activated * up).to(dtype), mask=inside)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """As `reference.rms_norm`; x [rows, size] whose rows may lie apart, the result's do not."""
    rows, size = x.shape
    assert x.stride(1) == 1, x.stride()
    output = torch.empty((rows, size), dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(size)
    if rows:
        rms_norm_kernel[(rows,)](
            x, x.stride(0), weight, output, size, eps, BLOCK=block, num_warps=_warps(block)
        )
    return output


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """As `reference.add_rms_norm`; x and residual contiguous."""
    rows, size = x.shape
    assert x.is_contiguous()
    assert residual.is_contiguous()
    output, total = torch.empty_like(x), torch.empty_like(x)
    block = triton.next_power_of_2(size)
    if rows:
        add_rms_norm_kernel[(rows,)](
            x, residual, weight, output, total, size, eps, BLOCK=block, num_warps=_warps(block)
        )
    return output, total


def swiglu(gate_up: Tensor) -> Tensor:
    """As `reference.swiglu`; gate_up contiguous."""
    assert gate_up.is_contiguous()
    rows, size = gate_up.shape[0], gate_up.shape[1] // 2
    output = torch.empty((rows, size), dtype=gate_up.dtype, device=gate_up.device)
    if rows:
        grid = (rows, triton.cdiv(size, _GATE_BLOCK))
        swiglu_kernel[grid](gate_up, output, size, BLOCK=_GATE_BLOCK)
    return output


def _warps(block: int) -> int:
    """Eight elements a thread, from one warp to eight: 16 bytes of bf16 are one load."""
    return min(max(block // 256, 1), 8)
