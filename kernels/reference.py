"""Each operation in plain torch: the specification that every faster version is tested against.

Runs on any device torch runs on. Knows no model, no request and no page ownership: a page table
is a tensor of integers here.

Exactness. A row's result must not depend on how many rows are computed with it. On the CPU two
rules give that here, checked by the tests on the machine they run on: rows come in multiples of
`ROW_ALIGNMENT` (a GEMM of 1-3, 5-7 or 9-11 rows takes another accumulation order than one of 4,
8, 12 or 512: measured with MKL 2024.2), and attention walks key tiles of a fixed width that
start at absolute positions, so that a cut of the prompt never moves a tile's border.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from radixchat.kernels.kv_pages import SCALE_DTYPE, KVLayer
from radixchat.kernels.ragged import Ragged

ROW_ALIGNMENT = 4
# 256 keys a tile: 12 small torch calls a tile and layer, so a 4k context costs 16 rounds instead
# of 64 at width 64, while a short context wastes at most one masked tile (9 heads x 256 x 64).
KEY_TILE = 256


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm over the last dimension, in fp32; x [..., size], weight [size]."""
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * (wide * scale).to(x.dtype)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The norm of x + residual, and that sum; all [rows, size]."""
    total = x + residual
    return rms_norm(total, weight, eps), total


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [rows, in] times weight [out, in] transposed; rows a multiple of ROW_ALIGNMENT."""
    assert x.shape[0] % ROW_ALIGNMENT == 0, x.shape
    return functional.linear(x, weight, bias)


def swiglu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up; gate_up [rows, 2 * size] holds the gates, then the ups of each row."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate) * up


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding, halves convention; x [rows, heads, dim], cos and sin [rows, dim / 2]."""
    low, high = x.chunk(2, dim=-1)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


def quantize_kv(x: Tensor) -> tuple[Tensor, Tensor]:
    """Codes int8 [..., dim] and scales fp16 [...], symmetric per token and head; x [..., dim].

    The scale is the largest magnitude / 127 rounded to fp16, at least fp16's smallest normal
    number and at most its largest; codes are rounded to the nearest, ties to even.
    """
    wide = x.float()
    limits = torch.finfo(SCALE_DTYPE)
    scale = (wide.abs().amax(-1) / 127).clamp(limits.tiny, limits.max).to(SCALE_DTYPE)
    codes = (wide / scale.float().unsqueeze(-1)).round().clamp(-127, 127)
    return codes.to(torch.int8), scale


def store_kv(key: Tensor, value: Tensor, kv: KVLayer, slots: Tensor) -> None:
    """Write key and value [rows, kv_heads, dim] to the slots [rows]; a slot of -1 is skipped."""
    kept = slots >= 0
    pages, offsets = slots[kept] // kv.page_size, slots[kept] % kv.page_size
    parts = ((key, kv.k, kv.k_scale), (value, kv.v, kv.v_scale))
    for new, cache, scales in parts:
        rows = new[kept]
        if scales is not None:
            rows, scales[pages, :, offsets] = quantize_kv(rows)
        cache[pages, :, offsets] = rows


def paged_attention(query: Tensor, kv: KVLayer, step: Ragged) -> Tensor:
    """Causal attention of ragged rows over paged K and V; prefill chunks and decode rows alike.

    query [rows, heads, dim]; padding rows come back as zeros. Returns [rows, heads, dim].
    Online softmax over key tiles (Milakov & Gimelshein 2018; FlashAttention's inner loop).
    """
    output = torch.zeros_like(query)
    for index in range(step.num_requests):
        start, end = int(step.starts[index]), int(step.starts[index + 1])
        output[start:end] = _attend(
            query[start:end], kv, int(step.lengths[index]), step.page_tables[index]
        )
    return output


def _attend(query: Tensor, kv: KVLayer, kv_length: int, table: Tensor) -> Tensor:
    """One request: query [rows, heads, dim] at the last positions of kv_length."""
    rows, heads, dim = query.shape
    kv_heads = kv.k.shape[1]
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
        keys, values = _tile(kv, table, tile_start, kv_length)
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


def _tile(kv: KVLayer, table: Tensor, start: int, kv_length: int) -> tuple[Tensor, Tensor]:
    """K and V fp32 [KEY_TILE, kv_heads, dim] of positions start..; what is past the end is masked.

    It reads slot 0 of the table's first page, which is finite: the cache is zeroed at birth.
    """
    positions = torch.arange(start, start + KEY_TILE, device=table.device)
    positions = torch.where(positions < kv_length, positions, 0)
    pages, offsets = table[positions // kv.page_size].long(), positions % kv.page_size
    keys, values = kv.k[pages, :, offsets].float(), kv.v[pages, :, offsets].float()
    if kv.k_scale is not None and kv.v_scale is not None:
        keys *= kv.k_scale[pages, :, offsets].float().unsqueeze(-1)
        values *= kv.v_scale[pages, :, offsets].float().unsqueeze(-1)
    return keys, values
