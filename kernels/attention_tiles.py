"""How many rows and keys an attention kernel takes at a time, by head size and capability.

The reasons stand beside the numbers; no number here has been measured yet on the machine that it
is for (`bench/gpu.py` measures them). Knows no kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class AttentionTiles:
    """One way of compiling the kernel.

    rows: rows times query heads of a block, a power of two >= 16 (what a matrix unit takes); keys:
    of a tile; programs: persistent programs a multiprocessor.
    """

    rows: int
    keys: int
    num_warps: int
    num_stages: int
    programs: int


@dataclass(frozen=True, slots=True)
class TileChoice:
    """narrow: few rows and many keys, bound by memory; wide: chunks of a prompt, shared prefixes.

    Equal in exact mode: then one binary computes every row, whatever else is computed with it.
    """

    narrow: AttentionTiles
    wide: AttentionTiles


def tile_choice(
    head_dim: int,
    group: int,
    dtype: torch.dtype,
    kv_dtype: torch.dtype,
    capability: int,
    exact: bool,
) -> TileChoice:
    """The tiles of a head size, a query heads' group, types of operands and KV, and a GPU.

    capability: 80 or 90, and what is like them.
    """
    size = 1 << (head_dim - 1).bit_length()
    least = max(16, 1 << (group - 1).bit_length())
    if dtype == torch.float32:
        # No matrix unit takes fp32 as it is: products are multiply-adds in registers, and tiles
        # are as small as those allow.
        tiles = AttentionTiles(least, 32, num_warps=4, num_stages=1, programs=2)
        return TileChoice(tiles, tiles)
    keys = max(16, min(128, 8192 // size))
    if exact:
        # One binary for decode and prefill: 64 rows, the fewest of Hopper's matrix instruction.
        tiles = AttentionTiles(max(64, least), min(64, keys), 4, 3, programs=2)
        return TileChoice(tiles, tiles)
    return TileChoice(
        _narrow(least, keys, kv_dtype, capability), _wide(size, least, keys, capability)
    )


def _narrow(rows: int, keys: int, kv_dtype: torch.dtype, capability: int) -> AttentionTiles:
    # 16 KiB of K and 16 of V a tile: with the tiles under way of two programs a multiprocessor
    # that covers memory's latency (4.8 TB/s times 0.8 us over 132: 29 KiB).
    if kv_dtype == torch.int8:
        keys = min(128, 2 * keys)
    return AttentionTiles(
        rows, keys, num_warps=4, num_stages=3 if capability >= 90 else 2, programs=2
    )


def _wide(size: int, least: int, keys: int, capability: int) -> AttentionTiles:
    # 128 rows and 8 warps: two warp groups, whose softmax and products overlap; sums, scores and
    # weights then fit in registers up to 128 dimensions.
    rows = max(least, 128 if size <= 128 else 64)
    return AttentionTiles(
        rows, min(keys, 128), num_warps=8, num_stages=3 if capability >= 90 else 2, programs=1
    )
