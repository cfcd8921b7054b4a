"""Rows of fp32 times a packed matrix, fast and exact.

A sum is one chain of fused multiply-adds over the inputs in order, from zero, whatever the
number of rows, threads, panels or blocks; so a row's result never depends on what is computed
with it. Few rows widen codes in registers: memory sets the speed of one. More rows take the
weights of two panels as fp32 first, in blocks that stay in the second-level cache, and reuse
them for every row:

```
  a part's rows, 256 at a time
      two panels of its outputs
          512 inputs: codes -> fp32 in scratch       [2, 512, 32]
              6 rows at a time: sums += x * weights  24 registers; sums lie in out, or in scratch
                                                     where out must not be written
```
Knows no model and starts no threads but in `product`.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
import torch
from numba import prange
from torch import Tensor

from radixchat.kernels import cpu_panels as panels
from radixchat.kernels.cpu_entry import call, entry, int64_at
from radixchat.kernels.cpu_jit import jit, parallel_jit
from radixchat.kernels.cpu_micro_kernel import (
    FEW,
    PAIR,
    READ_ROWS,
    TALL,
    WIDE,
    multiply_rows,
    multiply_tile,
    stay_whole,
    wide_of,
)
from radixchat.kernels.cpu_simd import add, load, load_scalar, store, store_scalar
from radixchat.kernels.cpu_widen import widen
from radixchat.kernels.packed_matrix import PackedMatrix

BLOCK_INPUTS = 512  # a multiple of every group
BLOCK_ROWS = 256
# Widening a panel costs about as much as multiplying this many rows with it.
WIDEN_ROWS = 6

WIDE_OF = (0, *[wide_of(rows) for rows in range(1, FEW + 1)])
PANEL, PANEL_BYTES = panels.PANEL, panels.PANEL_BYTES
SUMS_STRIDE = PAIR * PANEL_BYTES
WEIGHT_BYTES = PAIR * BLOCK_INPUTS * PANEL_BYTES
SCRATCH_BYTES = WEIGHT_BYTES + BLOCK_ROWS * SUMS_STRIDE + 64

# Numba compiles a function again for a literal argument and for every other kind of integer.
NO, YES = np.int64(0), np.int64(1)

FORMAT, OUT, IN, GROUP = panels.FORMAT, panels.OUT_FEATURES, panels.IN_FEATURES, panels.GROUP
CODES, CODE_STRIDE, MINIMA = panels.CODES, panels.CODE_STRIDE, panels.MINIMA
SCALES, SCALE_STRIDE, HALVES = panels.SCALES, panels.SCALE_STRIDE, panels.HALVES
FP32, MATRIX_FIELDS = panels.FP32, panels.MATRIX_FIELDS


@jit
def share(
    x: int,
    x_stride: int,
    rows: int,
    matrix: Any,
    out: int,
    out_stride: int,
    part: int,
    num_parts: int,
    scratch: int,
    adding: int,
) -> None:
    """Write part's share of x [rows, in] times the matrix transposed to out [rows, out].

    With adding other than 0, add the finished sums to what out holds instead. x and out are
    addresses of fp32, strides in bytes; matrix is a description; scratch is the caller's own
    buffer of SCRATCH_BYTES, of which nothing is kept.
    """
    stay_whole()
    scratch = (scratch + 63) // 64 * 64
    num_panels = (matrix[OUT] + PANEL - 1) // PANEL
    row_parts = split_rows(rows, num_panels, num_parts)
    panel_parts = num_parts // row_parts
    row_part, panel_part = part // panel_parts, part % panel_parts
    first_panel = num_panels * panel_part // panel_parts
    end_panel = num_panels * (panel_part + 1) // panel_parts
    first_row, end_row = rows * row_part // row_parts, rows * (row_part + 1) // row_parts
    for row in range(first_row, end_row, BLOCK_ROWS):
        count = min(BLOCK_ROWS, end_row - row)
        x_block, out_block = x + row * x_stride, out + row * out_stride
        if count <= READ_ROWS and matrix[FORMAT] != FP32:
            _few_rows(
                x_block, x_stride, count, matrix, first_panel, end_panel, out_block, out_stride,
                scratch, adding,
            )  # fmt: skip
            continue
        for panel in range(first_panel, end_panel, PAIR):
            width = min(PAIR, end_panel - panel)
            _columns(
                x_block, x_stride, count, matrix, panel, width, out_block, out_stride, scratch,
                adding, PAIR if panel + PAIR < end_panel else 0,
            )  # fmt: skip


@jit
def split_rows(rows: int, num_panels: int, num_parts: int) -> int:
    """Into how many shares the rows go; num_parts / that many shares of panels.

    The largest part costs least: rows cost less where the panels do not share out evenly, and
    panels where a second widening of them costs more than that.
    """
    best, best_cost = 1, 1 << 62
    for row_parts in range(1, num_parts + 1):
        if num_parts % row_parts == 0:
            panel_parts = num_parts // row_parts
            share = (num_panels + panel_parts - 1) // panel_parts
            cost = share * ((rows + row_parts - 1) // row_parts + WIDEN_ROWS)
            if cost < best_cost:
                best, best_cost = row_parts, cost
    return best


@jit
def _few_rows(
    x: int,
    x_stride: int,
    rows: int,
    matrix: Any,
    first_panel: int,
    end_panel: int,
    out: int,
    out_stride: int,
    scratch: int,
    adding: int,
) -> None:
    """Up to READ_ROWS rows times the codes of some panels, each code read from memory once."""
    stay_whole()
    passes = (rows + FEW - 1) // FEW
    most = WIDE_OF[(rows + passes - 1) // passes]
    panel = first_panel
    while panel < end_panel:
        left = end_panel - panel
        # Two and two rather than three and one: a single panel has only two chains.
        width = min(left, most) if left != most + 1 or most < 3 else PAIR
        ahead = width if left > width else 0
        place = out + panel * PANEL_BYTES
        direct = not adding and (panel + width) * PANEL <= matrix[OUT]
        sums = place if direct else scratch
        stride = out_stride if direct else SUMS_STRIDE
        codes, scale = panel * matrix[CODE_STRIDE], panel * matrix[SCALE_STRIDE]
        minima = matrix[MINIMA] + scale if matrix[MINIMA] else 0
        row = 0
        for number in range(passes):
            end = rows * (number + 1) // passes
            multiply_rows(
                matrix[FORMAT], end - row, width, x + row * x_stride, x_stride, matrix[IN],
                matrix[GROUP], matrix[CODES] + codes, matrix[CODE_STRIDE], matrix[SCALES] + scale,
                minima, matrix[SCALE_STRIDE], matrix[HALVES], ahead, sums + row * stride, stride,
            )  # fmt: skip
            row = end
        if not direct:
            columns = matrix[OUT] - panel * PANEL
            _finish(sums, stride, rows, columns, width, place, out_stride, adding)
        panel += width


@jit
def _columns(
    x: int,
    x_stride: int,
    rows: int,
    matrix: Any,
    panel: int,
    width: int,
    out: int,
    out_stride: int,
    scratch: int,
    adding: int,
    ahead: int,
) -> None:
    """All inputs of `width` panels, for up to BLOCK_ROWS rows."""
    stay_whole()
    place = out + panel * PANEL_BYTES
    direct = not adding and (panel + width) * PANEL <= matrix[OUT]
    sums, sums_stride = place, out_stride
    if not direct:
        sums, sums_stride = scratch + WEIGHT_BYTES, SUMS_STRIDE
    weights, panel_stride, block = scratch, BLOCK_INPUTS * PANEL_BYTES, BLOCK_INPUTS
    if matrix[FORMAT] == FP32:
        weights, panel_stride = matrix[CODES] + panel * matrix[CODE_STRIDE], matrix[CODE_STRIDE]
        block = matrix[IN]
    for first in range(0, matrix[IN], block):
        end = min(first + block, matrix[IN])
        if matrix[FORMAT] != FP32:
            for index in range(width):
                target = weights + index * panel_stride
                widen(matrix, panel + index, first, end, target, ahead)
        for start in range(0, width, WIDE):
            _tiles(
                x + 4 * first, x_stride, rows, min(WIDE, width - start),
                weights + start * panel_stride, panel_stride, end - first,
                sums + start * PANEL_BYTES, sums_stride, YES if first == 0 else NO,
            )  # fmt: skip
    if not direct:
        _finish(
            sums, sums_stride, rows, matrix[OUT] - panel * PANEL, width, place, out_stride, adding
        )


@jit
def _tiles(
    x: int,
    x_stride: int,
    rows: int,
    width: int,
    weights: int,
    panel_stride: int,
    depth: int,
    sums: int,
    sums_stride: int,
    start: int,
) -> None:
    """Tiles of nearly equal heights: eight rows are four and four, not six and two."""
    stay_whole()
    tiles = (rows + TALL - 1) // TALL
    row = 0
    for tile in range(tiles):
        end = rows * (tile + 1) // tiles
        multiply_tile(
            end - row, width, x + row * x_stride, x_stride, weights, panel_stride, depth,
            sums + row * sums_stride, sums_stride, start,
        )  # fmt: skip
        row = end


@jit
def _finish(
    sums: int,
    sums_stride: int,
    rows: int,
    columns: int,
    width: int,
    out: int,
    out_stride: int,
    adding: int,
) -> None:
    """Copy or add the real ones of `width` panels' sums to out."""
    stay_whole()
    columns = min(columns, width * PANEL)
    for row in range(rows):
        done = 0
        here, there = sums + row * sums_stride, out + row * out_stride
        while done + 16 <= columns:
            value = load(here + 4 * done)
            store(there + 4 * done, add(load(there + 4 * done), value) if adding else value)
            done += 16
        for column in range(done, columns):
            number = load_scalar(here + 4 * column)
            if adding:
                number += load_scalar(there + 4 * column)
            store_scalar(there + 4 * column, number)


@functools.cache
def share_entry() -> Any:
    """`share` for callers at arm's length (`kernels/cpu_entry.py`): ten int64, the matrix's fields
    by their address.
    """
    return entry(_share_at, 10)


def _share_at(
    x: int, x_stride: int, rows: int, matrix: int, out: int, out_stride: int, part: int,
    num_parts: int, scratch: int, adding: int,
) -> None:  # fmt: skip
    fields = numba.carray(int64_at(matrix), (MATRIX_FIELDS,))
    share(x, x_stride, rows, fields, out, out_stride, part, num_parts, scratch, adding)


def product(x: Tensor, matrix: PackedMatrix) -> Tensor:
    """x [rows, in] times the matrix transposed: fp32 [rows, out], by all of Numba's threads."""
    if x.dim() != 2 or x.shape[1] != matrix.in_features:
        raise ValueError(f"x of shape {list(x.shape)} does not match a matrix of {matrix.shape}")
    x = x.float()
    if x.stride(1) != 1:
        x = x.contiguous()
    out = torch.empty(x.shape[0], matrix.out_features)
    num_parts = numba.get_num_threads()
    scratch = torch.empty(num_parts * SCRATCH_BYTES, dtype=torch.uint8)
    _product(
        share_entry().address, x.data_ptr(), 4 * x.stride(0), x.shape[0], matrix.describe(),
        out.data_ptr(), 4 * matrix.out_features, num_parts, scratch.data_ptr(),
    )  # fmt: skip
    return out


@parallel_jit
def _product(
    address: int,
    x: int,
    x_stride: int,
    rows: int,
    matrix: Any,
    out: int,
    out_stride: int,
    num_parts: int,
    scratch: int,
) -> None:
    for part in prange(num_parts):
        own = scratch + part * SCRATCH_BYTES
        arguments = (
            x, x_stride, rows, matrix.ctypes.data, out, out_stride, part, num_parts, own, 0,
        )  # fmt: skip
        call(address, arguments)
