"""How a step's attention is shared among the parts, one part a thread; the same for every layer.

Knows lengths and counts, no address and no number. The unit of work is one tile of 256 keys for
one block of query rows of one KV head. Units lie in a row, request by request, and each part
takes a stretch of them of equal cost. A block that a border cuts is attended in pieces, which
leave the state of every tile behind, and is folded afterwards; any other folds as it goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radixchat.kernels.cpu_jit import jit
from radixchat.kernels.cpu_simd import WIDTH
from radixchat.kernels.ragged import Ragged

KEY_TILE = 256
# Rows (positions times heads of a group) of a block: 96 read a tile's K and V (128 KiB at head
# size 64) once, and their weights, 96 x 256, still fit the second-level cache beside them.
BLOCK_ROWS = 96
# Reading a key's K and V from memory costs a thread as much as computing it for this many rows
# (fp32, head size 64: 512 bytes at 17 GB/s against 128 FMAs a row at 2 x 16 a cycle).
KEY_COST = 24

# Numbers of a work item. SLOT: the first of its states, -1 where it folds as it goes.
REQUEST, HEAD, FIRST_ROW, POSITIONS, FIRST_POSITION, SLOT, FIRST_TILE, END_TILE = range(8)
ITEM_FIELDS = 8


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """The work of a step.

    tables: int32 [requests, pages]; items: int64 [n, ITEM_FIELDS], those of part p are
    items[bounds[p]:bounds[p + 1]]; folds: int64 [m, ITEM_FIELDS], the blocks that lie in pieces,
    with all their tiles; states: fp32, room for the pieces' states.
    """

    tables: NDArray[np.int32]
    items: NDArray[np.int64]
    bounds: NDArray[np.int64]
    folds: NDArray[np.int64]
    states: NDArray[np.float32]

    @property
    def num_parts(self) -> int:
        """Parts that share the work."""
        return len(self.bounds) - 1


def state_bytes(dim: int) -> int:
    """Bytes of a row's softmax state: its mixed values [dim], then maximum and sum."""
    return 4 * (dim + WIDTH)


def plan_attention(
    step: Ragged, num_heads: int, num_kv_heads: int, dim: int, num_parts: int
) -> AttentionPlan:
    """Share the step's attention among num_parts, for all layers.

    Raises ValueError for heads that are no multiple of the KV heads, or no part.
    """
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(f"{num_heads} heads are no multiple of {num_kv_heads} KV heads")
    if num_parts < 1:
        raise ValueError(f"{num_parts} parts")
    group = num_heads // num_kv_heads
    items, bounds, folds, rows = _share(step.starts, step.lengths, group, num_kv_heads, num_parts)
    states = np.empty(rows * state_bytes(dim) // 4, dtype=np.float32)
    return AttentionPlan(step.page_tables.numpy(), items, bounds, folds, states)


@jit
def _share(starts: Any, lengths: Any, group: int, num_kv_heads: int, num_parts: int) -> Any:
    """Items, bounds, folds and the number of states."""
    block = max(1, BLOCK_ROWS // group)
    total, num_blocks = 0, 0
    for request in range(len(lengths)):
        start, end = starts[request], starts[request + 1]
        for row in range(start, end, block):
            rows = min(block, end - row)
            keys = np.int64(lengths[request] - end + row + rows)
            total += num_kv_heads * keys * (rows * group + KEY_COST)
            num_blocks += num_kv_heads
    items = np.empty((num_blocks + num_parts, ITEM_FIELDS), dtype=np.int64)
    folds = np.empty((num_parts, ITEM_FIELDS), dtype=np.int64)
    bounds = np.zeros(num_parts + 1, dtype=np.int64)
    item, fold, states, part, done = 0, 0, 0, 0, 0
    zero: Any = np.int64(0)  # a literal one would have `_set` compiled once more
    for request in range(len(lengths)):
        start, end = starts[request], starts[request + 1]
        for head in range(num_kv_heads):
            for row in range(start, end, block):
                rows = min(block, end - row)
                position = np.int64(lengths[request] - end + row)
                keys = position + rows
                tiles = (keys + KEY_TILE - 1) // KEY_TILE
                first_item, first_tile = item, zero
                for tile in range(tiles):
                    cost = min(KEY_TILE, keys - tile * KEY_TILE) * (rows * group + KEY_COST)
                    # A unit belongs to the part in whose stretch its middle lies.
                    owner = (2 * done + cost) * num_parts // (2 * total)
                    done += cost
                    if owner != part and tile > first_tile:
                        _set(items[item], request, head, row, rows, position, first_tile, tile)
                        item, first_tile = item + 1, tile
                    while part < owner:
                        part += 1
                        bounds[part] = item
                _set(items[item], request, head, row, rows, position, first_tile, tiles)
                item += 1
                if item > first_item + 1:
                    _set(folds[fold], request, head, row, rows, position, zero, tiles)
                    folds[fold, SLOT] = states
                    items[first_item:item, SLOT] = states
                    states += tiles * rows * group
                    fold += 1
    bounds[part + 1 :] = item
    return items[:item], bounds, folds[:fold], states


@jit
def _set(
    item: Any,
    request: int,
    head: int,
    row: int,
    rows: int,
    position: int,
    first_tile: int,
    end_tile: int,
) -> None:
    item[REQUEST], item[HEAD], item[FIRST_ROW], item[POSITIONS] = request, head, row, rows
    item[FIRST_POSITION], item[SLOT] = position, -1
    item[FIRST_TILE], item[END_TILE] = first_tile, end_tile
