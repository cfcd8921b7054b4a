"""Causal attention over paged K and V on the CPU: prefill chunks, drafts and decode rows alike.

A row's result is the left fold, in order, over the tiles of 256 keys at absolute positions, of
each tile's softmax state; so no cut of the prompt, batch, page size or number of threads changes
a bit of it. Query heads of a KV head's group share what is read of it. Keys that a row doesn't
see may hold anything: they reach no sum. Knows no model and no page's owner.

```
  scratch of a part:  queries, scaled | weights | states | states of a tile | the tile's addresses
```
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np
import torch
from numba import njit
from torch import Tensor

from radixchat.kernels import cpu_kv as f
from radixchat.kernels import cpu_plan as plan
from radixchat.kernels.cpu_entry import entry, int32_at, int64_at
from radixchat.kernels.cpu_jit import jit
from radixchat.kernels.cpu_key_tile import (
    K_AT,
    K_SCALES,
    V_AT,
    V_SCALES,
    find_tile,
    tile_bytes,
)
from radixchat.kernels.cpu_kv import describe_kv
from radixchat.kernels.cpu_plan import BLOCK_ROWS, KEY_TILE, plan_attention, state_bytes
from radixchat.kernels.cpu_row_block import VECTORS, block_rows, mix, scores
from radixchat.kernels.cpu_simd import LANE_BYTES, WIDTH, everywhere, load, mul, store
from radixchat.kernels.cpu_softmax import clear, finish, fold_state, weigh
from radixchat.kernels.kv_pages import KVLayer
from radixchat.kernels.ragged import Ragged

# Bytes from a row's weights to the next row's: a power of two would put the rows of a block into
# the same few sets of the cache.
_WEIGHTS = 4 * KEY_TILE + LANE_BYTES
# Keys that all rows of a block go through before the next ones: 16 KiB of K stay in the first
# cache (head size 64) while 96 rows pass.
_TOGETHER = 64


def scratch_bytes(num_heads: int, num_kv_heads: int, dim: int) -> int:
    """Bytes of scratch that a part of `attend` needs, at an address that is a multiple of 8."""
    rows = max(BLOCK_ROWS, num_heads // num_kv_heads)
    return rows * (4 * dim + _WEIGHTS + 2 * state_bytes(dim)) + tile_bytes(dim)


@jit
def attend(
    query: int,
    query_stride: int,
    out: int,
    out_stride: int,
    group: int,
    kv: Any,
    tables: Any,
    items: Any,
    bounds: Any,
    states: int,
    scratch: int,
    part: int,
) -> None:
    """This part's share of the plan; `fold` has to follow if the plan has folds.

    query, out: addresses of rows of heads of dim fp32 numbers, strides in bytes; group: query
    heads a KV head; kv: a row of `describe_kv`; tables, items, bounds, and states by its address:
    of the plan; scratch: this part's own.
    """
    dim = kv[f.DIM]
    line = 4 * (dim + WIDTH)
    most = max(BLOCK_ROWS, group)
    weights = scratch + most * 4 * dim
    own = weights + most * _WEIGHTS
    for i in range(bounds[part], bounds[part + 1]):
        item = items[i]
        rows = item[plan.POSITIONS] * group
        at = query + item[plan.FIRST_ROW] * query_stride + item[plan.HEAD] * group * dim * 4
        _take_queries(at, query_stride, item[plan.POSITIONS], group, dim, scratch)
        for tile in range(item[plan.FIRST_TILE], item[plan.END_TILE]):
            if item[plan.SLOT] >= 0:
                target = states + (item[plan.SLOT] + tile * rows) * line
            else:
                target = own if tile == 0 else own + most * line
            _attend_tile(
                kv, tables, item, tile, group, scratch, weights, target, own + 2 * most * line
            )
            if item[plan.SLOT] < 0 and tile > 0:
                for row in range(_first_row(item, group, tile), rows):
                    fold_state(own + row * line, target + row * line, dim)
        if item[plan.SLOT] < 0:
            for row in range(rows):
                finish(own + row * line, _place(item, group, dim, out, out_stride, row), dim)


@functools.cache
def attend_entry() -> Any:
    """`attend` for callers at arm's length (`kernels/cpu_entry.py`): 16 int64, the arrays by their
    addresses and sizes.
    """
    return entry(_attend_at, 16)


def _attend_at(
    query: int, query_stride: int, out: int, out_stride: int, group: int, kv: int, tables: int,
    num_requests: int, width: int, items: int, num_items: int, bounds: int, num_parts: int,
    states: int, scratch: int, part: int,
) -> None:  # fmt: skip
    attend(
        query, query_stride, out, out_stride, group,
        numba.carray(int64_at(kv), (f.KV_FIELDS,)),
        numba.carray(int32_at(tables), (num_requests, width)),
        numba.carray(int64_at(items), (num_items, plan.ITEM_FIELDS)),
        numba.carray(int64_at(bounds), (num_parts + 1,)),
        states, scratch, part,
    )  # fmt: skip


@jit
def fold(
    out: int,
    out_stride: int,
    group: int,
    dim: int,
    folds: Any,
    states: int,
    part: int,
    num_parts: int,
) -> None:
    """Fold the blocks that were attended in pieces; after all parts of `attend`.

    Parts share the rows; each row is folded once, since its first state becomes the sum of all.
    """
    line = 4 * (dim + WIDTH)
    for i in range(len(folds)):
        item = folds[i]
        rows = item[plan.POSITIONS] * group
        for row in range(part, rows, num_parts):
            state = states + (item[plan.SLOT] + row) * line
            for tile in range(1, item[plan.END_TILE]):
                if row >= _first_row(item, group, tile):
                    fold_state(state, state + tile * rows * line, dim)
            finish(state, _place(item, group, dim, out, out_stride, row), dim)


@jit
def _place(item: Any, group: int, dim: int, out: int, out_stride: int, row: int) -> Any:
    """Where a block's row goes: rows are position by position, its heads one after another."""
    head = item[plan.HEAD] * group + row % group
    return out + (item[plan.FIRST_ROW] + row // group) * out_stride + head * dim * 4


@jit
def _first_row(item: Any, group: int, tile: int) -> Any:
    """The first row of a block that sees a key of the tile."""
    return max(0, tile * KEY_TILE - item[plan.FIRST_POSITION]) * group


@jit
def _take_queries(
    query: int, query_stride: int, positions: int, group: int, dim: int, target: int
) -> None:
    """The block's queries times dim ** -0.5, [rows, dim]."""
    scale = everywhere(np.float32(dim**-0.5))
    for _ in range(positions):
        for i in range(0, group * dim * 4, LANE_BYTES):
            store(target + i, mul(load(query + i), scale))
        query += query_stride
        target += group * dim * 4


@njit(nogil=True, inline="always")  # else the blocks of rows are compiled once more
def _attend_tile(
    kv: Any,
    tables: Any,
    item: Any,
    tile: int,
    group: int,
    queries: int,
    weights: int,
    states: int,
    found: int,
) -> None:
    """The states of a block's rows for one tile; rows that see nothing of it are left out."""
    dim, codes, start = kv[f.DIM], 1 if kv[f.K_SCALE] else 0, tile * KEY_TILE
    rows, line = item[plan.POSITIONS] * group, 4 * (dim + WIDTH)
    # Row r sees min(KEY_TILE, visible + r // group) keys of this tile.
    visible = item[plan.FIRST_POSITION] + 1 - start
    end = min(KEY_TILE, visible + item[plan.POSITIONS] - 1)
    last = item[plan.FIRST_POSITION] + item[plan.POSITIONS]
    last = min(last, item[plan.END_TILE] * KEY_TILE)
    table = tables[item[plan.REQUEST]]
    k_step = find_tile(kv, table, item[plan.HEAD], start, start + end, last, found)
    first = _first_row(item, group, tile)
    for key in range(0, end, WIDTH * VECTORS):
        row, at = first, found + K_AT + key // WIDTH * 8
        while row < rows:
            n = block_rows(rows - row)
            if visible + (row + n - 1) // group > key:
                q, out = queries + row * 4 * dim, weights + row * _WEIGHTS + 4 * key
                scores(n, codes, q, 4 * dim, at, k_step, dim, out, _WEIGHTS)
            row += n
    k_scales, v_scales = (found + K_SCALES, found + V_SCALES) if codes else (0, 0)
    for row in range(first, rows):
        count = min(KEY_TILE, visible + row // group)
        clear(states + row * line, dim)
        weigh(weights + row * _WEIGHTS, count, k_scales, v_scales, states + row * line, dim)
    for key in range(0, end, _TOGETHER):
        row = first
        while row < rows:
            n = block_rows(rows - row)
            # What all n rows see of these keys they take together, the rest each for itself.
            shared = max(0, min(_TOGETHER, KEY_TILE - key, visible + row // group - key))
            for alone in range(-1, n if shared < _TOGETHER else 0):
                r, m, done = (row, n, 0) if alone < 0 else (row + alone, 1, shared)
                count = min(_TOGETHER, KEY_TILE - key, visible + r // group - key) - done
                if count > 0:
                    w, at = (
                        weights + r * _WEIGHTS + 4 * (key + done),
                        found + V_AT + 8 * (key + done),
                    )
                    mix(m, codes, w, _WEIGHTS, at, dim, count, states + r * line, line)
            row += n


def paged_attention(query: Tensor, kv: KVLayer, step: Ragged, num_parts: int = 1) -> Tensor:
    """As `reference.paged_attention`, fp32, the work cut for num_parts but done by one thread.

    query [rows, heads, dim]; padding rows come back as zeros. Raises ValueError as `describe_kv`
    and `plan_attention` do.
    """
    num_heads, dim = query.shape[1:]
    fields = describe_kv(kv)
    num_kv_heads = int(fields[f.NUM_KV_HEADS])
    work = plan_attention(step, num_heads, num_kv_heads, dim, num_parts)
    query = query.contiguous()
    output = torch.zeros_like(query)
    scratch = np.empty(scratch_bytes(num_heads, num_kv_heads, dim) // 8 + 1, dtype=np.int64)
    group, stride = num_heads // num_kv_heads, 4 * num_heads * dim
    states = work.states.ctypes.data
    for part in range(num_parts):
        attend(
            query.data_ptr(),
            stride,
            output.data_ptr(),
            stride,
            group,
            fields,
            work.tables,
            work.items,
            work.bounds,
            states,
            scratch.ctypes.data,
            part,
        )
    for part in range(num_parts):
        fold(output.data_ptr(), stride, group, dim, work.folds, states, part, num_parts)
    return output
