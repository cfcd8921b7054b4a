"""Each operation in plain torch: the specification that every faster version is tested against.

Runs on any device torch runs on. Knows no model, no request and no page ownership: a page table
is a tensor of integers here.

Exactness. A row's result must not depend on how many rows are computed with it. On the CPU two
rules give that, checked by the tests on the machine they run on: rows come in multiples of
`ROW_ALIGNMENT` (a GEMM of 1-3, 5-7 or 9-11 rows takes another accumulation order than one of 4,
8, 12 or 512: measured with MKL 2024.2), and attention walks key tiles of a fixed width that
start at absolute positions, so that a cut of the prompt never moves a tile's border.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

ROW_ALIGNMENT = 4
# 256 keys a tile: 12 small torch calls a tile and layer, so a 4k context costs 16 rounds instead
# of 64 at width 64, while a short context wastes at most one masked tile (9 heads x 256 x 64).
KEY_TILE = 256


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm over the last dimension, in fp32; x [..., size], weight [size]."""
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * (wide * scale).to(x.dtype)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [rows, in] times weight [out, in] transposed; rows a multiple of ROW_ALIGNMENT."""
    assert x.shape[0] % ROW_ALIGNMENT == 0, x.shape
    return functional.linear(x, weight, bias)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up, elementwise."""
    return functional.silu(gate) * up


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding, halves convention; x [rows, heads, dim], cos and sin [rows, dim / 2]."""
    low, high = x.chunk(2, dim=-1)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


def store_kv(key: Tensor, value: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None:
    """Write key and value [rows, kv_heads, dim] to the slots [rows] of one layer's cache.

    The caches are [pages, page_size, kv_heads, dim]; slot = page * page_size + offset.
    """
    k_cache.flatten(0, 1).index_copy_(0, slots, key)
    v_cache.flatten(0, 1).index_copy_(0, slots, value)


def copy_slots(cache: Tensor, sources: Tensor, destinations: Tensor) -> None:
    """Copy slots inside the cache of all layers, [layers, 2, pages, page_size, kv_heads, dim]."""
    slots = cache.flatten(2, 3)
    slots.index_copy_(2, destinations, slots.index_select(2, sources))


def paged_attention(
    query: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    query_starts: list[int],
    kv_lengths: list[int],
    page_tables: list[Tensor],
) -> Tensor:
    """Causal attention of ragged rows over paged K and V; prefill chunks and decode rows alike.

    query [rows, heads, dim]; request i owns rows query_starts[i]:query_starts[i + 1], which are
    the last of its kv_lengths[i] positions; page_tables[i] [pages of i] int64. Rows beyond
    query_starts[-1] are padding and come back as zeros. Returns [rows, heads, dim].

    Online softmax over key tiles (Milakov & Gimelshein 2018; FlashAttention's inner loop).
    """
    output = torch.zeros_like(query)
    for index, page_table in enumerate(page_tables):
        start, end = query_starts[index], query_starts[index + 1]
        output[start:end] = _attend(
            query[start:end], k_cache, v_cache, kv_lengths[index], page_table
        )
    return output


def _attend(
    query: Tensor, k_cache: Tensor, v_cache: Tensor, kv_length: int, table: Tensor
) -> Tensor:
    """One request: query [rows, heads, dim] at the last positions of kv_length."""
    rows, heads, dim = query.shape
    kv_heads, page_size = k_cache.shape[2], k_cache.shape[1]
    group = heads // kv_heads
    padded = -(-rows // ROW_ALIGNMENT) * ROW_ALIGNMENT
    # [kv_heads, group * padded, dim]: the query heads of a group read the same keys.
    folded = query.new_zeros(kv_heads, group, padded, dim)
    folded[:, :, :rows] = query.view(rows, kv_heads, group, dim).permute(1, 2, 0, 3)
    folded = folded.view(kv_heads, group * padded, dim).float() * dim**-0.5
    positions = torch.arange(padded, device=query.device) + (kv_length - rows)
    positions = positions.repeat(group).unsqueeze(-1)

    maximum = folded.new_full((kv_heads, group * padded, 1), -torch.inf)
    total = folded.new_zeros(kv_heads, group * padded, 1)
    accumulated = folded.new_zeros(kv_heads, group * padded, dim)
    for tile_start in range(0, kv_length, KEY_TILE):
        keys, values = _tile(k_cache, v_cache, table, tile_start, kv_length, page_size)
        scores = torch.bmm(folded, keys.permute(1, 2, 0))
        if tile_start + KEY_TILE > kv_length - rows + 1:  # else all rows see all of it
            key_positions = torch.arange(tile_start, tile_start + KEY_TILE, device=query.device)
            scores.masked_fill_(key_positions > positions, -torch.inf)
        # A row for which the whole tile is in the future keeps its state to the bit:
        # maximum unchanged, rescale = exp(0) = 1, weights = exp(-inf) = 0.
        new_maximum = torch.maximum(maximum, scores.amax(-1, keepdim=True))
        rescale = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * rescale + weights.sum(-1, keepdim=True)
        accumulated = accumulated * rescale + torch.bmm(weights, values.permute(1, 0, 2))
        maximum = new_maximum
    attended: Tensor = (accumulated / total).view(kv_heads, group, padded, dim)[:, :, :rows]
    return attended.permute(2, 0, 1, 3).reshape(rows, heads, dim).to(query.dtype)


def _tile(
    k_cache: Tensor, v_cache: Tensor, table: Tensor, start: int, kv_length: int, page_size: int
) -> tuple[Tensor, Tensor]:
    """K and V [KEY_TILE, kv_heads, dim] of positions start..; those past the end are masked later.

    They read slot 0 of the table's first page, which is finite: the cache is zeroed at birth.
    """
    positions = torch.arange(start, start + KEY_TILE, device=table.device)
    positions = torch.where(positions < kv_length, positions, 0)
    slots = table[positions // page_size] * page_size + positions % page_size
    keys = k_cache.flatten(0, 1).index_select(0, slots).float()
    values = v_cache.flatten(0, 1).index_select(0, slots).float()
    return keys, values
