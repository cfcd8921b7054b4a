"""How many rows and keys an attention kernel takes at a time, by head size and types.

The reasons stand beside the numbers: registers, spills and shared memory are those that ptxas
reports for sm_80 and sm_90 (`tests/kernels/compile_cases_attention.py`); times nobody has measured
yet. One table serves both: what fits the smaller fills the larger. Knows no kernel.
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
    head_dim: int, group: int, dtype: torch.dtype, kv_dtype: torch.dtype, *, exact: bool
) -> TileChoice:
    """The tiles of a head size, a group's query heads, and the types of operands and of KV."""
    size = 1 << (head_dim - 1).bit_length()
    least = max(16, 1 << (group - 1).bit_length())
    if dtype == torch.float32:
        # No matrix unit takes fp32 as it is: products are multiply-adds in registers, and tiles
        # are as small as those allow.
        tiles = AttentionTiles(least, 32, num_warps=4, num_stages=1, programs=2)
        return TileChoice(tiles, tiles)
    if exact:
        # One binary for decode and prefill. 64 rows are the fewest of Hopper's matrix instruction;
        # 8 warps, because two sets of sums are live: 4 would spill 104 bytes at 128 dimensions.
        keys = max(16, min(64, 8192 // size))
        tiles = AttentionTiles(max(64, least), keys, num_warps=8, num_stages=5, programs=1)
        return TileChoice(tiles, tiles)
    return TileChoice(_narrow(size, least, kv_dtype), _wide(size, least, kv_dtype))


def _narrow(size: int, rows: int, kv_dtype: torch.dtype) -> AttentionTiles:
    # Page numbers are loaded before what they point to and take half of the pipeline's stages: 5
    # keep two tiles of K and V under way. Three programs a multiprocessor so have 96 KiB under way
    # in bf16 and 48 in INT8, where memory's latency asks for 29 (4.8 TB/s times 0.8 us over 132).
    # At 64 and 128 dimensions they take 96 to 159 registers and spill none; twice the keys spill,
    # and so do 64 INT8 keys of 64 dimensions with Triton 3.7: of half as many, four programs.
    if kv_dtype == torch.int8 and size <= 64:
        return AttentionTiles(rows, 32, 4, 5, programs=4)
    return AttentionTiles(rows, max(16, min(128, 4096 // size)), 4, 5, programs=3)


def _wide(size: int, least: int, kv_dtype: torch.dtype) -> AttentionTiles:
    # 128 rows over 8 warps are two warp groups on Hopper, one of which computes weights while the
    # other multiplies. 128 keys at 128 dimensions would spill 80 bytes on sm_90, 128 INT8 keys
    # anywhere; 64 do not. (On sm_80 up to 72 bytes are spilt.)
    keys = max(16, min(64 if kv_dtype == torch.int8 else 128, 8192 // size))
    return AttentionTiles(max(least, 128 if size <= 128 else 64), keys, 8, 5, programs=1)
