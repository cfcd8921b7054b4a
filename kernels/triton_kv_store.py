# ruff: noqa: N803 - constants of a kernel are in capitals, as in Triton's own sources
"""Triton: what lies between a layer's product and its attention, and copies of pages.

One launch does the norms of queries and keys, their rotary positions, and the way of K and V into
their slots, quantised where the pool holds int8. Knows no owner of a page.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from radixchat.kernels.kv_pages import KVLayer, KVPages
from radixchat.kernels.layers import LayerShape

# Heads a program: at head size 128 that is 8 elements a thread, and a decode step of one row is
# still spread over several multiprocessors.
_HEADS = 8
_POSITIONS = 16  # of a page that one program copies


@triton.jit
def rotate_store_kernel(
    qkv: tl.tensor,
    qkv_stride: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    q_norm: tl.tensor,
    k_norm: tl.tensor,
    eps: tl.tensor,
    slots: tl.tensor,
    query: tl.tensor,
    k: tl.tensor,
    k_page: tl.tensor,
    k_head: tl.tensor,
    k_position: tl.tensor,
    k_dim: tl.tensor,
    v: tl.tensor,
    v_page: tl.tensor,
    v_head: tl.tensor,
    v_position: tl.tensor,
    k_scale: tl.tensor,
    v_scale: tl.tensor,
    scale_page: tl.tensor,
    scale_head: tl.tensor,
    page_size: tl.tensor,
    num_heads: tl.tensor,
    num_kv_heads: tl.tensor,
    DIM: tl.constexpr,
    HALF: tl.constexpr,
    HEADS: tl.constexpr,
    NORMS: tl.constexpr,
    ROTATES: tl.constexpr,
    QUANTIZED: tl.constexpr,
) -> None:
    """HEADS heads of one row a program, in halves; HALF: the power of two that holds one."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    is_query = head < num_heads
    is_key = (head >= num_heads) & (head < num_heads + num_kv_heads)
    is_value = (head >= num_heads + num_kv_heads) & (head < num_heads + 2 * num_kv_heads)
    low, high = _halves(
        qkv + row * qkv_stride, head, head < num_heads + 2 * num_kv_heads, is_query, is_value,
        cos + row * (DIM // 2), sin + row * (DIM // 2), q_norm, k_norm, eps,
        DIM, HALF, NORMS, ROTATES,
    )  # fmt: skip
    _store(low, high, query + (row * num_heads + head) * DIM, 1, is_query, DIM, HALF)
    slot = tl.load(slots + row)
    if slot >= 0:
        page, position = slot // page_size, slot % page_size
        kv_head = (head - num_heads) % num_kv_heads
        if QUANTIZED:
            first, second, scale = _quantized(low.to(tl.float32), high.to(tl.float32))
            scale_at = page * scale_page + kv_head * scale_head + position
            tl.store(k_scale + scale_at, scale, mask=is_key)
            tl.store(v_scale + scale_at, scale, mask=is_value)
        else:
            first, second = low, high
        key_at = k + page * k_page + kv_head * k_head + position * k_position
        _store(first, second, key_at, k_dim, is_key, DIM, HALF)
        value_at = v + page * v_page + kv_head * v_head + position * v_position
        _store(first, second, value_at, 1, is_value, DIM, HALF)


@triton.jit
def _store(
    low: tl.tensor,
    high: tl.tensor,
    at: tl.tensor,
    stride: tl.tensor,
    heads: tl.tensor,
    DIM: tl.constexpr,
    HALF: tl.constexpr,
) -> None:
    """Both halves of some of the heads, each from its place on."""
    column = tl.arange(0, HALF)[None, :]
    mask = heads[:, None] & (column < DIM // 2)
    tl.store(at[:, None] + column * stride, low, mask=mask)
    tl.store(at[:, None] + (column + DIM // 2) * stride, high, mask=mask)


@triton.jit
def _halves(
    row: tl.tensor,
    head: tl.tensor,
    real: tl.tensor,
    is_query: tl.tensor,
    is_value: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    q_norm: tl.tensor,
    k_norm: tl.tensor,
    eps: tl.tensor,
    DIM: tl.constexpr,
    HALF: tl.constexpr,
    NORMS: tl.constexpr,
    ROTATES: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Both halves of a row's heads: queries and keys normed and rotated, values as they are."""
    dtype = row.dtype.element_ty
    column = tl.arange(0, HALF)
    inside = column < DIM // 2
    at = row + head[:, None] * DIM + column[None, :]
    mask = real[:, None] & inside[None, :]
    low = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    high = tl.load(at + DIM // 2, mask=mask, other=0.0).to(tl.float32)
    if NORMS:
        normed_low, normed_high = _norms(
            low, high, q_norm, k_norm, is_query, column, eps, dtype, DIM
        )
        low = tl.where(is_value[:, None], low, normed_low)
        high = tl.where(is_value[:, None], high, normed_high)
    if ROTATES:
        c = tl.load(cos + column, mask=inside, other=0.0).to(tl.float32)[None, :]
        s = tl.load(sin + column, mask=inside, other=0.0).to(tl.float32)[None, :]
        turned_low, turned_high = low * c - high * s, high * c + low * s
        low = tl.where(is_value[:, None], low, turned_low)
        high = tl.where(is_value[:, None], high, turned_high)
    return low.to(dtype), high.to(dtype)


@triton.jit
def _norms(
    low: tl.tensor,
    high: tl.tensor,
    q_norm: tl.tensor,
    k_norm: tl.tensor,
    is_query: tl.tensor,
    column: tl.tensor,
    eps: tl.tensor,
    dtype: tl.constexpr,
    DIM: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Both halves of each head after its norm, rounded as `reference.rms_norm` rounds."""
    inside = column < DIM // 2
    scale = tl.rsqrt((tl.sum(low * low, 1) + tl.sum(high * high, 1)) / DIM + eps)[:, None]
    q_low = tl.load(q_norm + column, mask=inside, other=0.0).to(tl.float32)
    q_high = tl.load(q_norm + DIM // 2 + column, mask=inside, other=0.0).to(tl.float32)
    k_low = tl.load(k_norm + column, mask=inside, other=0.0).to(tl.float32)
    k_high = tl.load(k_norm + DIM // 2 + column, mask=inside, other=0.0).to(tl.float32)
    low_weights = tl.where(is_query[:, None], q_low[None, :], k_low[None, :])
    high_weights = tl.where(is_query[:, None], q_high[None, :], k_high[None, :])
    low = low_weights * (low * scale).to(dtype).to(tl.float32)
    high = high_weights * (high * scale).to(dtype).to(tl.float32)
    return low.to(dtype).to(tl.float32), high.to(dtype).to(tl.float32)


@triton.jit
def _quantized(low: tl.tensor, high: tl.tensor) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """`reference.quantize_kv` to the bit: codes of both halves and the scale of each head.

    Divisions are IEEE's. Adding 1.5 * 2**23 leaves no bit for a fraction, so the sum is rounded to
    the nearest whole number, ties to even. tl.max passes NaN by: it is carried into the scale.
    """
    largest = tl.maximum(tl.max(tl.abs(low), 1), tl.max(tl.abs(high), 1))
    scale = tl.div_rn(largest, 127.0)
    scale = tl.minimum(tl.maximum(scale, 6.103515625e-05), 65504.0).to(tl.float16)
    wide = scale.to(tl.float32)[:, None]
    low_codes = tl.minimum(tl.maximum(tl.div_rn(low, wide), -127.0), 127.0)
    high_codes = tl.minimum(tl.maximum(tl.div_rn(high, wide), -127.0), 127.0)
    low_codes = (low_codes + 12582912.0) - 12582912.0
    high_codes = (high_codes + 12582912.0) - 12582912.0
    nans = tl.sum((low != low).to(tl.int32), 1) + tl.sum((high != high).to(tl.int32), 1)
    low_codes = tl.where(low == low, low_codes, 0.0).to(tl.int8)
    high_codes = tl.where(high == high, high_codes, 0.0).to(tl.int8)
    return low_codes, high_codes, tl.where(nans > 0, float("nan"), scale)


@triton.jit
def copy_slots_kernel(
    cache: tl.tensor,
    copies: tl.tensor,
    num_heads: tl.tensor,
    layer_stride: tl.tensor,
    page_stride: tl.tensor,
    head_stride: tl.tensor,
    position_stride: tl.tensor,
    dim_stride: tl.tensor,
    dim: tl.tensor,
    POSITIONS: tl.constexpr,
    DIM: tl.constexpr,
) -> None:
    """POSITIONS of one copy, layer and head a program; DIM: the power of two that holds dim."""
    copy = copies + tl.program_id(0) * 3
    source = tl.load(copy).to(tl.int64) * page_stride
    destination = tl.load(copy + 1).to(tl.int64) * page_stride
    count = tl.load(copy + 2)
    layer, head = tl.program_id(1) // num_heads, tl.program_id(1) % num_heads
    base = cache + layer.to(tl.int64) * layer_stride + head.to(tl.int64) * head_stride
    column = tl.arange(0, DIM)[None, :]
    position = tl.program_id(2) * POSITIONS + tl.arange(0, POSITIONS)[:, None]
    inside = (position < count) & (column < dim)
    at = base + position * position_stride + column * dim_stride
    tl.store(at + destination, tl.load(at + source, mask=inside), mask=inside)


def rotate_store(
    qkv: Tensor,
    rotation: tuple[Tensor, Tensor] | None,
    norms: tuple[Tensor, Tensor] | None,
    kv: KVLayer,
    slots: Tensor,
    shape: LayerShape,
) -> Tensor:
    """The queries [rows, heads, dim]; keys and values are in their slots, those of -1 nowhere.

    qkv: [rows, (heads + 2 * kv_heads) * dim]. rotation: cos and sin [rows, dim / 2]; norms: of
    queries and of keys [dim]; None: there are none.
    """
    rows, heads, kv_heads, dim = len(qkv), shape.num_heads, shape.num_kv_heads, shape.head_dim
    quantized = kv.k_scale is not None and kv.v_scale is not None
    assert qkv.stride(1) == 1, qkv.stride()
    assert kv.v.stride(3) == 1, kv.v.stride()
    cos, sin = rotation if rotation is not None else (qkv, qkv)
    assert rotation is None or (cos.is_contiguous() and sin.is_contiguous())
    q_norm, k_norm = norms if norms is not None else (qkv, qkv)
    k_scale, v_scale = (kv.k, kv.v) if kv.k_scale is None else (kv.k_scale, kv.v_scale)
    scale_strides = (0, 0) if kv.k_scale is None else kv.k_scale.stride()[:2]
    query = torch.empty((rows, heads, dim), dtype=qkv.dtype, device=qkv.device)
    if rows:
        rotate_store_kernel[(rows, triton.cdiv(heads + 2 * kv_heads, _HEADS))](
            *(qkv, qkv.stride(0), cos, sin, q_norm, k_norm, shape.rms_eps, slots, query),
            *(kv.k, *kv.k.stride(), kv.v, *kv.v.stride()[:3], k_scale, v_scale, *scale_strides),
            *(kv.page_size, heads, kv_heads),
            DIM=dim,
            HALF=triton.next_power_of_2(dim // 2),
            HEADS=_HEADS,
            NORMS=norms is not None,
            ROTATES=rotation is not None,
            QUANTIZED=quantized,
        )
    return query


def copy_slots(pages: KVPages, copies: Sequence[tuple[int, int, int]]) -> None:
    """As `KVPages.copy_slots`: all copies of a part in one launch."""
    if not copies:
        return
    listed = torch.tensor(copies, dtype=torch.int32).to(pages.k.device, non_blocking=True)
    for part in pages.parts():
        cache = part if part.ndim == 5 else part.unsqueeze(-1)
        layers, _, heads, page_size, dim = cache.shape
        copy_slots_kernel[(len(copies), layers * heads, triton.cdiv(page_size, _POSITIONS))](
            *(cache, listed, heads, *cache.stride(), dim),
            POSITIONS=_POSITIONS,
            DIM=triton.next_power_of_2(dim),
        )
