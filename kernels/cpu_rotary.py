"""From the product with W_qkv to attention on the CPU: head norms, rotary positions, K, V to slots.

Works on rows of [heads + 2 * kv_heads] heads, in place, and stores K and V to their slots as the
layer's KV is kept: fp32, or int8 codes with a scale per token and head. Every sum has one order.
Knows no page's owner.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from radixchat.kernels import cpu_kv as f
from radixchat.kernels.cpu_bytes import copy_byte
from radixchat.kernels.cpu_jit import jit
from radixchat.kernels.cpu_simd import (
    LANE_BYTES,
    WIDTH,
    absolute,
    add,
    div,
    everywhere,
    fma,
    largest,
    load,
    load_half_scalar,
    load_scalar,
    maximum,
    mul,
    store,
    store_half_scalar,
    store_scalar,
    store_signed,
    sub,
    total,
    where_above,
)

_LARGEST_CODE = np.float32(127.0)
_LEAST_SCALE = np.float32(np.finfo(np.float16).tiny)
_LARGEST_SCALE = np.float32(np.finfo(np.float16).max)


@jit
def rotate_store(
    qkv: int,
    qkv_stride: int,
    first_row: int,
    end_row: int,
    cos: int,
    sin: int,
    q_norm: int,
    k_norm: int,
    eps: float,
    num_heads: int,
    kv: Any,
    slots: Any,
) -> None:
    """Normalise, rotate and store the rows first_row..end_row-1.

    qkv: address of fp32 rows, stride in bytes: the queries' heads, the keys', the values'. The
    queries are left there for attention; what is left of K and V is of no use. cos, sin: addresses
    of fp32 [rows, dim / 2], or 0 for no rotation; q_norm, k_norm: of fp32 [dim], or 0; kv: a row
    of `describe_kv`; slots: int64 [rows], -1 for a row that is not stored.
    """
    dim, kv_heads, page_size = kv[f.DIM], kv[f.NUM_KV_HEADS], kv[f.PAGE_SIZE]
    for row in range(first_row, end_row):
        turn = row * dim * 2
        for head in range(num_heads + kv_heads):
            at = qkv + row * qkv_stride + head * dim * 4
            norm = q_norm if head < num_heads else k_norm
            if norm:
                _normalize(at, norm, np.float32(eps), dim)
            if cos:
                _rotate(at, cos + turn, sin + turn, dim // 2)
        if slots[row] >= 0:
            page, offset = slots[row] // page_size, slots[row] % page_size
            key = qkv + row * qkv_stride + num_heads * dim * 4
            for i in range(2 * kv_heads):
                _store(key + i * dim * 4, kv, page, i % kv_heads, offset, i < kv_heads)


@jit
def _normalize(x: int, weight: int, eps: float, dim: int) -> None:
    """The root-mean-square norm of one head, in place."""
    squares = everywhere(np.float32(0.0))
    for i in range(0, 4 * dim, LANE_BYTES):
        squares = fma(load(x + i), load(x + i), squares)
    mean = total(squares) / np.float32(dim)
    scale = everywhere(np.float32(1.0) / np.float32(math.sqrt(np.float32(mean + eps))))
    for i in range(0, 4 * dim, LANE_BYTES):
        store(x + i, mul(load(weight + i), mul(load(x + i), scale)))


@jit
def _rotate(x: int, cos: int, sin: int, half: int) -> None:
    """Rotary embedding of one head by halves, in place."""
    y, vectors = x + 4 * half, half // WIDTH * LANE_BYTES
    for i in range(0, vectors, LANE_BYTES):
        low, high, c, s = load(x + i), load(y + i), load(cos + i), load(sin + i)
        store(x + i, sub(mul(low, c), mul(high, s)))
        store(y + i, add(mul(high, c), mul(low, s)))
    for i in range(vectors, 4 * half, 4):
        first, second = load_scalar(x + i), load_scalar(y + i)
        c1, s1 = load_scalar(cos + i), load_scalar(sin + i)
        store_scalar(x + i, first * c1 - second * s1)
        store_scalar(y + i, second * c1 + first * s1)


@jit
def _store(x: int, kv: Any, page: int, head: int, offset: int, is_key: bool) -> None:
    """One head's K or V to its slot; K's dimensions lie apart there, V's side by side."""
    dim = kv[f.DIM]
    if is_key:
        step = kv[f.K_DIM]
        to = kv[f.K] + page * kv[f.K_PAGE] + head * kv[f.K_HEAD] + offset * kv[f.K_SLOT]
    else:
        step = 1 if kv[f.V_SCALE] else 4
        to = kv[f.V] + page * kv[f.V_PAGE] + head * kv[f.V_HEAD] + offset * kv[f.V_SLOT]
    if kv[f.K_SCALE]:
        scales = kv[f.K_SCALE] if is_key else kv[f.V_SCALE]
        scales += page * kv[f.SCALE_PAGE] + head * kv[f.SCALE_HEAD] + offset * kv[f.SCALE_SLOT]
        _quantize(x, scales, dim)
        for d in range(dim):
            copy_byte(x + d, to + d * step)
    elif is_key:
        for d in range(dim):
            store_scalar(to + d * step, load_scalar(x + 4 * d))
    else:
        for i in range(0, 4 * dim, LANE_BYTES):
            store(to + i, load(x + i))


@jit
def _quantize(x: int, scale: int, dim: int) -> None:
    """As `reference.quantize_kv`: the scale to its address, the codes to the head's first bytes.

    A number that is not one makes the scale NaN, so that it is not lost.
    """
    nothing = everywhere(np.float32(0.0))
    most, check = nothing, nothing
    for i in range(0, 4 * dim, LANE_BYTES):
        value = load(x + i)
        most = maximum(absolute(value), most)
        below = where_above(value, nothing, nothing, value)  # at most 0, or NaN
        check = add(check, where_above(nothing, below, nothing, below))  # 0, or NaN
    # np.float32 keeps the division in fp32.
    wished = np.float32(largest(most) / _LARGEST_CODE)
    if wished < _LEAST_SCALE:
        wished = _LEAST_SCALE
    if wished > _LARGEST_SCALE:
        wished = _LARGEST_SCALE
    store_half_scalar(scale, np.float32(wished + total(check)))
    divisor = everywhere(load_half_scalar(scale))
    limit, lowest = everywhere(_LARGEST_CODE), everywhere(-_LARGEST_CODE)
    for i in range(0, dim, WIDTH):
        code = maximum(div(load(x + 4 * i), divisor), lowest)
        store_signed(x + i, where_above(code, limit, limit, code))
