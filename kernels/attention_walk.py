"""Triton: the softmax state of a block of rows, and how keys and partial results join it.

The inner loop of every attention kernel. Knows no item of work, no row of a step and no request.

A state (maximum, total, sums) is what a walk over keys keeps; its softmax is in base 2, in units
of the unscaled score. What leaves it is a normalised sum and its log-sum-exp, in natural log.
"""

# ruff: noqa: N803 - constants of a kernel are in capitals, as in Triton's own sources
from __future__ import annotations

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)
_LN_2 = tl.constexpr(0.6931471805599453)
# A row's maximum before its first key: finite, so that a tile that is masked for a row rescales by
# exp2(0) = 1 and not by NaN, and below every score there is.
_LOWEST = tl.constexpr(-1.0e30)


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
    top = tl.full([ROWS], _LOWEST, tl.float32)
    return top, tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, BLOCK_DIM], tl.float32)


@triton.jit
def take_weights(
    top: tl.tensor, total: tl.tensor, scores: tl.tensor, DIM: tl.constexpr, SHARP: tl.constexpr
) -> tl.tuple:
    """The new maximum and total, what the sums so far are to be scaled by, the scores' weights.

    SHARP: the difference to the maximum is taken before it is scaled, which is exact for the
    scores that matter. For 16-bit operands that is finer than what they carry: one multiply-add.
    """
    scale: tl.constexpr = DIM**-0.5 * _LOG2_E
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
    none is, and the span is of whole tiles.

    K, V and page numbers are loaded tiles ahead by Triton's pipeliner. It leaves 2-byte loads where
    they stand, so a tile's scales are asked for here while the tile before is computed.
    """
    top, total, sums = state
    k, v, k_scale, v_scale = caches
    k_strides, v_strides, scale_strides = strides
    dims = tl.arange(0, query.shape[1])
    lanes = tl.arange(0, KEYS)
    if INT8:
        next_scales = load_scales(k_scale, v_scale, table, scale_strides, first + lanes, end, PAGE)
        next_key_scale, next_value_scale = next_scales
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
        value = load_tile(v, pages, offsets, inside, dims, v_strides, DIM, MASKED)
        sums = tl.dot(
            weights.to(query.dtype),
            value.to(query.dtype),
            sums * rescale[:, None],
            input_precision="ieee",
        )
    return top, total, sums


@triton.jit
def normalised(state: tl.tuple, DIM: tl.constexpr) -> tl.tuple:
    """Log-sum-exp [rows] in natural log, -inf of no key, and the sums over the total."""
    top, total, sums = state
    some = total > 0
    divisor = tl.where(some, total, 1.0)
    lse = tl.where(some, tl.fma(top, DIM**-0.5, tl.log(divisor)), float("-inf"))
    return lse, sums / divisor[:, None]


@triton.jit
def fold(lse: tl.tensor, sums: tl.tensor, part_lse: tl.tensor, part: tl.tensor) -> tl.tuple:
    """The result after one more part; lse [rows], sums [rows, dim]. No key in it: no bit changes.

    Explicit multiply-adds: what a compiler contracts must not depend on what stands around.
    """
    top = tl.maximum(lse, part_lse)
    some = top > float("-inf")
    top = tl.where(some, top, 0.0)
    weight, part_weight = tl.exp(lse - top), tl.exp(part_lse - top)
    total = tl.where(some, weight + part_weight, 1.0)
    share, part_share = weight / total, part_weight / total
    lse = tl.where(some, top + tl.log(total), float("-inf"))
    return lse, tl.fma(sums, share[:, None], part * part_share[:, None])
