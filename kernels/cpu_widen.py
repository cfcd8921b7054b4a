"""Codes of a packed matrix to fp32 weights, for products of many rows and for look-ups.

The weights are those that dequantising the source gives, to the bit: a code of at most 8 bits
times a scale of at most 17 significant bits is exact in fp32, so the fused multiply-add rounds
only once, as multiplying first and adding then does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from radixchat.kernels import cpu_panels as panels
from radixchat.kernels.cpu_jit import jit
from radixchat.kernels.cpu_micro_kernel import CACHE_LINE, prefetch, stay_whole
from radixchat.kernels.cpu_simd import (
    everywhere,
    fma,
    load,
    load_half,
    load_high_nibbles,
    load_low_nibbles,
    load_scalar,
    load_signed,
    store,
    store_scalar,
    sub,
)

PANEL_BYTES = panels.PANEL_BYTES
INT8, UINT4 = panels.INT8, panels.UINT4
FORMAT, GROUP, CODES, CODE_STRIDE = panels.FORMAT, panels.GROUP, panels.CODES, panels.CODE_STRIDE
SCALES, MINIMA, SCALE_STRIDE = panels.SCALES, panels.MINIMA, panels.SCALE_STRIDE
HALVES, PANEL, IN, FP32 = panels.HALVES, panels.PANEL, panels.IN_FEATURES, panels.FP32

TAKE_INPUTS = 512  # a multiple of every group
TAKE_BYTES = TAKE_INPUTS * PANEL_BYTES


@jit
def _bytes(codes: int, depth: int, s0: Any, s1: Any, m0: Any, m1: Any, out: int) -> None:
    for k in range(depth):
        at, to = codes + 32 * k, out + PANEL_BYTES * k
        store(to, fma(load_signed(at), s0, m0))
        store(to + 64, fma(load_signed(at + 16), s1, m1))


@jit
def _nibbles(codes: int, depth: int, s0: Any, s1: Any, m0: Any, m1: Any, out: int) -> None:
    for k in range(depth):
        at, to = codes + 16 * k, out + PANEL_BYTES * k
        store(to, fma(load_low_nibbles(at), s0, m0))
        store(to + 64, fma(load_high_nibbles(at), s1, m1))


@jit
def _signed_nibbles(codes: int, depth: int, s0: Any, s1: Any, m0: Any, m1: Any, out: int) -> None:
    eight = everywhere(8.0)
    for k in range(depth):
        at, to = codes + 16 * k, out + PANEL_BYTES * k
        store(to, fma(sub(load_low_nibbles(at), eight), s0, m0))
        store(to + 64, fma(sub(load_high_nibbles(at), eight), s1, m1))


@jit
def widen(matrix: Any, panel: int, first: int, end: int, out: int, ahead: int) -> None:
    """Write inputs first..end - 1 of a quantised panel as fp32 [end - first, 32] to out.

    Asks the cache for the same inputs of the panel that lies `ahead` further on; 0: for nothing.
    first: a multiple of the group.
    """
    stay_whole()
    kind, group, halves = matrix[FORMAT], matrix[GROUP], matrix[HALVES]
    code_bytes = 32 if kind == INT8 else 16
    codes = matrix[CODES] + panel * matrix[CODE_STRIDE] + first * code_bytes
    step = 2 * PANEL if halves else 4 * PANEL
    place = panel * matrix[SCALE_STRIDE] + first // group * step
    scales, minima = matrix[SCALES] + place, matrix[MINIMA] + place
    nothing = everywhere(-0.0)
    s0 = s1 = m0 = m1 = nothing
    for start in range(first, end, group):
        if halves:
            s0, s1 = load_half(scales), load_half(scales + 32)
            if matrix[MINIMA]:
                m0, m1 = load_half(minima), load_half(minima + 32)
        else:
            s0, s1 = load(scales), load(scales + 64)
            if matrix[MINIMA]:
                m0, m1 = load(minima), load(minima + 64)
        depth = min(group, end - start)
        if ahead:
            prefetch(scales + ahead * matrix[SCALE_STRIDE])
            prefetch(minima + ahead * matrix[SCALE_STRIDE])
            for line in range(0, depth * code_bytes, CACHE_LINE):
                prefetch(codes + ahead * matrix[CODE_STRIDE] + line)
        if kind == INT8:
            _bytes(codes, depth, s0, s1, m0, m1, out)
        elif kind == UINT4:
            _nibbles(codes, depth, s0, s1, m0, m1, out)
        else:
            _signed_nibbles(codes, depth, s0, s1, m0, m1, out)
        codes += depth * code_bytes
        out += depth * PANEL_BYTES
        scales += step
        minima += step


@jit
def take(
    matrix: Any, ids: Any, out: int, out_stride: int, part: int, num_parts: int, scratch: int
) -> None:
    """Write part's share of the rows ids int64 [n] of a matrix to out fp32 [n, in].

    out: an address, its stride in bytes; scratch: the caller's own TAKE_BYTES. The ids are rows
    of the matrix.
    """
    depth = matrix[IN]
    for index in range(len(ids) * part // num_parts, len(ids) * (part + 1) // num_parts):
        panel, lane = ids[index] // PANEL, ids[index] % PANEL
        row = out + index * out_stride
        for first in range(0, depth, TAKE_INPUTS):
            end = min(first + TAKE_INPUTS, depth)
            if matrix[FORMAT] == FP32:
                source = matrix[CODES] + panel * matrix[CODE_STRIDE] + first * PANEL_BYTES
            else:
                source = scratch
                widen(matrix, panel, first, end, source, np.int64(0))
            for k in range(end - first):
                number = load_scalar(source + k * PANEL_BYTES + 4 * lane)
                store_scalar(row + 4 * (first + k), number)
