"""Norms and gates of a step's rows on the CPU, each row by itself in one fixed order.

A sum over a row adds the lanes of 16 running sums by halves, whatever the number of rows. Knows
no layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from radixchat.kernels.cpu_jit import jit
from radixchat.kernels.cpu_simd import (
    absolute,
    add,
    div,
    everywhere,
    exp,
    fma,
    load,
    load_scalar,
    mul,
    store,
    store_scalar,
    sub,
    total,
    where_above,
)

LANES = 16


@jit
def rms_norm_rows(
    x: int, x_stride: int, weight: int, eps: float, out: int, out_stride: int, rows: int, size: int
) -> None:
    """Root-mean-square norm of rows [rows, size] of x, times weight [size], to out.

    Addresses of fp32, strides in bytes; out may be x.
    """
    whole = size // LANES * LANES
    for row in range(rows):
        here, there = x + row * x_stride, out + row * out_stride
        squares = everywhere(0.0)
        for at in range(0, 4 * whole, 4 * LANES):
            value = load(here + at)
            squares = fma(value, value, squares)
        mean = total(squares)
        for column in range(whole, size):
            number = load_scalar(here + 4 * column)
            mean += number * number
        mean = mean / np.float32(size) + np.float32(eps)
        scale = np.float32(1.0) / np.sqrt(mean)
        factor = everywhere(scale)
        for at in range(0, 4 * whole, 4 * LANES):
            store(there + at, mul(load(weight + at), mul(load(here + at), factor)))
        for column in range(whole, size):
            number = load_scalar(here + 4 * column) * scale
            store_scalar(there + 4 * column, load_scalar(weight + 4 * column) * number)


@jit
def swiglu_rows(
    gate_up: int, gate_up_stride: int, out: int, out_stride: int, rows: int, size: int
) -> None:
    """silu(gate) * up; gate_up [rows, 2 * size] holds the gates, then the ups of each row.

    Addresses of fp32, strides in bytes; size is a multiple of 16. out may be gate_up.
    """
    for row in range(rows):
        gates, there = gate_up + row * gate_up_stride, out + row * out_stride
        ups = gates + 4 * size
        for at in range(0, 4 * size, 4 * LANES):
            store(there + at, mul(_silu(load(gates + at)), load(ups + at)))


@jit
def _silu(x: Any) -> Any:
    """x / (1 + exp(-x)) by exp(-|x|), which does not overflow."""
    one, zero = everywhere(1.0), everywhere(0.0)
    small = exp(sub(zero, absolute(x)))
    numerator = where_above(x, zero, one, small)
    # A NaN takes the second branch with small = 0, so that x itself brings it to the result.
    return mul(x, div(numerator, add(one, small)))
