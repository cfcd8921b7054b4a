"""Triton: the softmax state of a block of rows, and how keys and partial results join it.

The inner loop of every attention kernel. Knows no item of work, no row of a step and no request.

A state is (maximum, total, sums): the largest score, unscaled; the total of the weights relative to
it; the sums of the values by those weights. Parts are kept as states and not as their log-sum-exp:
that of a score of 30 is known to 2e-6 in fp32, and no two kernels can disagree on a logarithm's
base.
"""

# ruff: noqa: N803 - constants of a kernel are in capitals, as in Triton's own sources
from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
# A row's maximum before its first key: finite, so that a tile that is masked for a row rescales by
# exp2(0) = 1 and not by NaN, and below every score there is.
LOWEST = tl.constexpr(-1.0e30)


@triton.jit
def load_tile(
    cache: tl.tensor,
    pages: tl.tensor,
    offsets: tl.tensor,
    inside: tl.tensor,
    dims: tl.tensor,
    strides: tl.tuple,
    DIM: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    """K or V of some positions, [keys, block of dim]; zeros where there is none.

    Never reads a slot that is not inside: what was never written may be NaN, which a weight of 0
    would not take away.
    """
    page_stride, slot_stride, dim_stride = strides
    slots = cache + pages * page_stride + offsets * slot_stride
    where = slots[:, None] + (dims * dim_stride)[None, :]
    if dims.shape[0] == DIM:
        tile = tl.load(where, mask=inside[:, None], other=0.0) if MASKED else tl.load(where)
    else:
        tile = tl.load(where, mask=inside[:, None] & (dims < DIM)[None, :], other=0.0)
    return tile


@triton.jit
def empty_state(ROWS: tl.constexpr, BLOCK_DIM: tl.constexpr) -> tl.tuple:
    """The state before the first key."""
    top = tl.full([ROWS], LOWEST, tl.float32)
    return top, tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, BLOCK_DIM], tl.float32)


@triton.jit
def take_weights(
    top: tl.tensor, total: tl.tensor, scores: tl.tensor, DIM: tl.constexpr, SHARP: tl.constexpr
) -> tl.tuple:
    """The new maximum and total, what the sums so far are to be scaled by, the scores' weights.

    SHARP: the difference to the maximum is taken before it is scaled, which is exact for the
    scores that matter. For 16-bit operands that is finer than what they carry: one multiply-add.
    """
    scale: tl.constexpr = DIM**-0.5 * LOG2_E
    new_top = tl.maximum(top, tl.max(scores, 1))
    if SHARP:
        weights = tl.math.exp2((scores - new_top[:, None]) * scale)
    else:
        shift = -new_top * scale
        weights = tl.math.exp2(tl.fma(scores, scale, shift[:, None]))
    rescale = tl.math.exp2((top - new_top) * scale)
    return new_top, tl.fma(total, rescale, tl.sum(weights, 1)), rescale, weights


@triton.jit
def load_scales(
    k_scale: tl.tensor,
    v_scale: tl.tensor,
    table: tl.tensor,
    strides: tl.tuple,
    keys: tl.tensor,
    end: tl.tensor,
    PAGE: tl.constexpr,
) -> tl.tuple:
    """The scales of K and of V at some positions, fp16 [keys]; zeros from the end on."""
    inside = keys < end
    pages = tl.load(table + keys // PAGE, mask=inside, other=0).to(tl.int64)
    slots = pages * strides[0] + keys % PAGE * strides[1]
    key_scale = tl.load(k_scale + slots, mask=inside, other=0.0)
    return key_scale, tl.load(v_scale + slots, mask=inside, other=0.0)


@triton.jit
def walk(
    state: tl.tuple,
    query: tl.tensor,
    positions: tl.tensor,
    first: tl.tensor,
    end: tl.tensor,
    table: tl.tensor,
    caches: tl.tuple,
    strides: tl.tuple,
    DIM: tl.constexpr,
    PAGE: tl.constexpr,
    KEYS: tl.constexpr,
    INT8: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tuple:
    """The state after the keys first..end, KEYS at a time; query [rows, block of dim].

    caches: k, v, k_scale, v_scale of the rows' head; strides: of k and of v (page, slot, dim), of
    the scales (page, slot). MASKED: a key may be behind a row's position, or behind the end; else
    none is, and the span is of whole tiles. Triton's pipeliner loads K, V and page numbers ahead,
    but leaves 2-byte loads where they stand: scales are asked for a tile ahead here.
    """
    top, total, sums = state
    k, v, k_scale, v_scale = caches
    k_strides, v_strides, scale_strides = strides
    dims = tl.arange(0, query.shape[1])
    lanes = tl.arange(0, KEYS)
    if INT8:
        next_key_scale, next_value_scale = load_scales(
            k_scale, v_scale, table, scale_strides, first + lanes, end, PAGE
        )
    for start in range(first, end, KEYS):
        keys = start + lanes
        inside = keys < end
        if MASKED:
            pages = tl.load(table + keys // PAGE, mask=inside, other=0).to(tl.int64)
        else:
            pages = tl.load(table + keys // PAGE).to(tl.int64)
        offsets = keys % PAGE
        key = load_tile(k, pages, offsets, inside, dims, k_strides, DIM, MASKED)
        scores = tl.dot(query, tl.trans(key.to(query.dtype)), input_precision="ieee")
        if INT8:
            scores = scores * next_key_scale.to(tl.float32)[None, :]
            value_scale = next_value_scale.to(tl.float32)
            next_key_scale, next_value_scale = load_scales(
                k_scale, v_scale, table, scale_strides, keys + KEYS, end, PAGE
            )
        if MASKED:
            visible = inside[None, :] & (keys[None, :] <= positions[:, None])
            scores = tl.where(visible, scores, float("-inf"))
        top, total, rescale, weights = take_weights(
            top, total, scores, DIM, query.dtype == tl.float32
        )
        if INT8:
            weights = weights * value_scale[None, :]
        value = load_tile(v, pages, offsets, inside, dims, v_strides, DIM, MASKED).to(query.dtype)
        sums = sums * rescale[:, None]
        sums = tl.dot(weights.to(query.dtype), value, sums, input_precision="ieee")
    return top, total, sums


@triton.jit
def fold(
    top: tl.tensor,
    total: tl.tensor,
    sums: tl.tensor,
    part_top: tl.tensor,
    part_total: tl.tensor,
    part_sums: tl.tensor,
    DIM: tl.constexpr,
) -> tl.tuple:
    """The state after one more part; without a key in it no bit changes, and a first one is kept.

    Explicit multiply-adds: what a compiler contracts must not depend on what stands around.
    """
    scale: tl.constexpr = DIM**-0.5 * LOG2_E
    new_top = tl.maximum(top, part_top)
    weight = tl.math.exp2((top - new_top) * scale)
    part_weight = tl.math.exp2((part_top - new_top) * scale)
    total = tl.fma(total, weight, part_total * part_weight)
    sums = tl.fma(sums, weight[:, None], part_sums * part_weight[:, None])
    return new_top, total, sums


@triton.jit
def normalised(total: tl.tensor, sums: tl.tensor) -> tl.tensor:
    """The sums over the total; zeros where there was no key."""
    return sums / tl.where(total > 0, total, 1.0)[:, None]
