"""Triton: attention of ragged rows over paged K and V, along a list of work.

One kernel serves decode rows, drafts, chunks of a prompt and rows of many requests that share a
prefix: it knows only items (`attention_work.py`). What items leave unfinished, a second kernel
merges. Knows no request and no layer.
"""

# ruff: noqa: N803 - constants of a kernel are in capitals, as in Triton's own sources
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from radixchat.kernels.attention_buffers import (
    SPLIT_KEYS,
    AttentionShape,
    AttentionWork,
    StepLimits,
)
from radixchat.kernels.attention_tiles import TileChoice
from radixchat.kernels.attention_walk import LOG2_E, LOWEST, empty_state, fold, normalised, walk
from radixchat.kernels.attention_work import SharedPrefix
from radixchat.kernels.kv_pages import KVLayer
from radixchat.kernels.ragged import Ragged


@triton.jit
def _store_part(
    state: tl.tuple,
    part: tl.tensor,
    step_rows: tl.tensor,
    heads: tl.tensor,
    real: tl.tensor,
    parts: tl.tuple,
    DIM: tl.constexpr,
) -> None:
    """The state of rows and heads to the slots of that part of theirs."""
    top, total, sums = state
    part_base, part_sums, part_totals, num_heads = parts
    slots = tl.load(part_base + step_rows, mask=real, other=0) + part
    where = slots.to(tl.int64) * num_heads + heads
    dims = tl.arange(0, sums.shape[1])
    tl.store(part_totals + where * 2, top, mask=real)
    tl.store(part_totals + where * 2 + 1, total, mask=real)
    columns = where[:, None] * DIM + dims[None, :]
    tl.store(part_sums + columns, sums, mask=real[:, None] & (dims < DIM)[None, :])


@triton.jit
def _attend_whole(
    query: tl.tensor,
    positions: tl.tensor,
    lowest: tl.tensor,
    first: tl.tensor,
    end: tl.tensor,
    table: tl.tensor,
    caches: tl.tuple,
    strides: tl.tuple,
    DIM: tl.constexpr,
    PAGE: tl.constexpr,
    KEYS: tl.constexpr,
    INT8: tl.constexpr,
) -> tl.tuple:
    """The state over first..end.

    Many rows: first whole tiles that all rows see, without a mask. Few rows wait for memory and not
    for masks; a second loop would only drain and fill the pipeline once more.
    """
    state = empty_state(query.shape[0], query.shape[1])
    middle = first
    if query.shape[0] >= 64:
        seen_by_all = tl.maximum(tl.minimum(end, lowest + 1) - first, 0)
        middle = first + seen_by_all // KEYS * KEYS
        state = walk(
            state, query, positions, first, middle,
            table, caches, strides, DIM, PAGE, KEYS, INT8, False,
        )  # fmt: skip
    return walk(
        state, query, positions, middle, end, table, caches, strides, DIM, PAGE, KEYS, INT8, True
    )


@triton.jit
def _attend_block(
    item: tl.tensor,
    row: tl.tensor,
    rows: tl.tensor,
    queries: tl.tuple,
    tables: tl.tuple,
    caches: tl.tuple,
    strides: tl.tuple,
    output: tl.tensor,
    parts: tl.tuple,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    PAGE: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    SPLIT: tl.constexpr,
    INT8: tl.constexpr,
    OPERAND: tl.constexpr,
) -> None:
    """The item's rows from `row` on, as many as a block holds, for one KV head."""
    lane = tl.arange(0, ROWS)
    local = row + lane // GROUP
    real = (lane < ROWS // GROUP * GROUP) & (local < tl.load(item + 1))
    step_rows = tl.load(rows + tl.load(item) + local, mask=real, other=0).to(tl.int64)
    heads = tl.program_id(1) * GROUP + lane % GROUP
    dims = tl.arange(0, BLOCK_DIM)
    inside = real[:, None] & (dims < DIM)[None, :]
    where = step_rows * queries[1] + heads * DIM
    query = tl.load(queries[0] + where[:, None] + dims[None, :], mask=inside, other=0.0)
    query = query.to(OPERAND)
    position, first, end = tl.load(item + 2), tl.load(item + 3), tl.load(item + 4)
    table = tables[0] + tl.load(item + 5).to(tl.int64) * tables[1]
    part = tl.load(item + 6)
    if SPLIT == 0:
        top, total, sums = _attend_whole(
            query, position + local, position + row, first, end,
            table, caches, strides, DIM, PAGE, KEYS, INT8,
        )  # fmt: skip
        if part >= 0:
            _store_part((top, total, sums), part, step_rows, heads, real, parts, DIM)
    else:
        top, total, sums = empty_state(ROWS, BLOCK_DIM)
        for start in range(first, end, SPLIT):
            split_top, split_total, split_sums = walk(
                empty_state(ROWS, BLOCK_DIM), query, position + local,
                start, tl.minimum(start + SPLIT, end),
                table, caches, strides, DIM, PAGE, KEYS, INT8, True,
            )  # fmt: skip
            if part >= 0:
                index = part + (start - first) // SPLIT
                state = (split_top, split_total, split_sums)
                _store_part(state, index, step_rows, heads, real, parts, DIM)
            else:
                top, total, sums = fold(top, total, sums, split_top, split_total, split_sums, DIM)
    if part < 0:
        target = (step_rows * parts[3] + heads) * DIM
        result = normalised(total, sums).to(output.dtype.element_ty)
        tl.store(output + target[:, None] + dims[None, :], result, mask=inside)


# A step's table may have any width: neither does it compile anew for one, nor compute otherwise.
@triton.jit(do_not_specialize=["table_stride"])
def attend_kernel(
    query: tl.tensor,
    output: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    k_scale: tl.tensor,
    v_scale: tl.tensor,
    page_tables: tl.tensor,
    items: tl.tensor,
    program_starts: tl.tensor,
    rows: tl.tensor,
    part_base: tl.tensor,
    part_sums: tl.tensor,
    part_totals: tl.tensor,
    query_stride: tl.tensor,
    table_stride: tl.tensor,
    k_page: tl.tensor,
    k_head: tl.tensor,
    k_slot: tl.tensor,
    k_dim: tl.tensor,
    v_page: tl.tensor,
    v_head: tl.tensor,
    v_slot: tl.tensor,
    v_dim: tl.tensor,
    scale_page: tl.tensor,
    scale_head: tl.tensor,
    scale_slot: tl.tensor,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    PAGE: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    SPLIT: tl.constexpr,
    INT8: tl.constexpr,
    OPERAND: tl.constexpr,
) -> None:
    """Program (p, h) does the p-th share of the items for KV head h, one block of rows at a time.

    ROWS: rows times query heads of a block; SPLIT: keys of a part of its own, 0: an item is one
    part; OPERAND: the type that products are taken of.
    """
    head = tl.program_id(1)
    scales = head * scale_head
    caches = (k + head * k_head, v + head * v_head, k_scale + scales, v_scale + scales)
    strides = ((k_page, k_slot, k_dim), (v_page, v_slot, v_dim), (scale_page, scale_slot))
    parts = (part_base, part_sums, part_totals, tl.num_programs(1) * GROUP)
    end = tl.load(program_starts + tl.program_id(0) + 1)
    for index in range(tl.load(program_starts + tl.program_id(0)), end):
        item = items + index * 8
        for row in range(0, tl.load(item + 1), ROWS // GROUP):
            _attend_block(
                item, row, rows, (query, query_stride), (page_tables, table_stride),
                caches, strides, output, parts,
                GROUP, DIM, BLOCK_DIM, PAGE, ROWS, KEYS, SPLIT, INT8, OPERAND,
            )  # fmt: skip


@triton.jit
def merge_kernel(
    output: tl.tensor,
    merge_rows: tl.tensor,
    part_base: tl.tensor,
    part_count: tl.tensor,
    part_sums: tl.tensor,
    part_totals: tl.tensor,
    DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    PARTS: tl.constexpr,
) -> None:
    """Program (i, head) merges the parts of row merge_rows[i], if that is not -1.

    PARTS at a time, by their sums; 1: one after the other, as an item folds what it does not cut.
    """
    row, head = tl.load(merge_rows + tl.program_id(0)), tl.program_id(1)
    if row >= 0:
        heads = tl.num_programs(1)
        count = tl.load(part_count + row)
        first = tl.load(part_base + row).to(tl.int64) * heads + head
        dims = tl.arange(0, BLOCK_DIM)
        top, total, sums = empty_state(1, BLOCK_DIM)
        for start in range(0, count, PARTS):
            index = start + tl.arange(0, PARTS)
            some = index < count
            slots = first + index * heads
            tops = tl.load(part_totals + slots * 2, mask=some, other=LOWEST)
            totals = tl.load(part_totals + slots * 2 + 1, mask=some, other=0.0)
            where = slots[:, None] * DIM + dims[None, :]
            inside = some[:, None] & (dims < DIM)[None, :]
            part = tl.load(part_sums + where, mask=inside, other=0.0)
            # Of PARTS at a time the state by plain sums; of one by one multiplication with 1.
            new_top = tl.max(tops, 0, keep_dims=True)
            weights = tl.math.exp2((tops - new_top) * (DIM**-0.5 * LOG2_E))
            new_total = tl.sum(totals * weights, 0, keep_dims=True)
            new_sums = tl.expand_dims(tl.sum(part * weights[:, None], 0), 0)
            top, total, sums = fold(top, total, sums, new_top, new_total, new_sums, DIM)
        where = (row.to(tl.int64) * heads + head) * DIM + dims
        merged = tl.reshape(normalised(total, sums), [BLOCK_DIM]).to(output.dtype.element_ty)
        tl.store(output + where, merged, mask=dims < DIM)


def attend(
    query: Tensor, kv: KVLayer, page_tables: Tensor, work: AttentionWork, output: Tensor
) -> None:
    """Causal attention of a step whose work was filled, into output [rows, heads, dim].

    query: [rows, heads, dim], contiguous within a row; page_tables: int32 [requests, pages]. Every
    row that fill was told of is written, those of the padding with zeros.
    """
    shape = work.shape
    group, dim = shape.group, shape.head_dim
    assert query.stride()[1:] == (dim, 1), query.stride()
    assert output.is_contiguous()
    assert kv.page_size == shape.page_size, (kv.page_size, shape)
    assert page_tables.stride(1) == 1, page_tables.stride()
    k_scale, v_scale = kv.k, kv.v  # stand-ins: without INT8 nobody reads them
    scale_strides: tuple[int, ...] = (0, 0, 0)
    if kv.k_scale is not None and kv.v_scale is not None:
        assert kv.k_scale.stride() == kv.v_scale.stride()
        k_scale, v_scale, scale_strides = kv.k_scale, kv.v_scale, kv.k_scale.stride()
    block_dim = triton.next_power_of_2(dim)
    for launch in work.launches:
        attend_kernel[(launch.programs, shape.num_kv_heads)](
            query, output, kv.k, kv.v, k_scale, v_scale, page_tables,
            launch.items, launch.starts, work.rows,
            work.part_base, work.part_sums, work.part_totals,
            query.stride(0), page_tables.stride(0), *kv.k.stride(), *kv.v.stride(), *scale_strides,
            GROUP=group, DIM=dim, BLOCK_DIM=block_dim, PAGE=shape.page_size,
            ROWS=launch.tiles.rows, KEYS=launch.tiles.keys, SPLIT=SPLIT_KEYS if work.exact else 0,
            INT8=kv.k_scale is not None, OPERAND=_operand(shape.dtype),
            num_warps=launch.tiles.num_warps, num_stages=launch.tiles.num_stages,
        )  # fmt: skip
    if work.merge_programs:
        merge_kernel[(work.merge_programs, shape.num_heads)](
            output, work.merged, work.part_base, work.part_count, work.part_sums, work.part_totals,
            DIM=dim, BLOCK_DIM=block_dim, PARTS=1 if work.exact else max(1, 4096 // block_dim),
        )  # fmt: skip


def _operand(dtype: torch.dtype) -> Any:
    """The type that products are taken of.

    The interpreter holds bf16 as integers and multiplies those; in fp32 the products of bf16
    numbers are what a matrix unit makes of them.
    """
    interpreted = not isinstance(attend_kernel, triton.JITFunction)
    if dtype == torch.bfloat16:
        return tl.float32 if interpreted else tl.bfloat16
    return {torch.float16: tl.float16, torch.float32: tl.float32}[dtype]


def paged_attention(
    query: Tensor,
    kv: KVLayer,
    step: Ragged,
    shared: Sequence[SharedPrefix] = (),
    *,
    exact: bool = False,
    tiles: TileChoice | None = None,
) -> Tensor:
    """As `reference.paged_attention`, for one layer alone; shared: prefixes to read once each."""
    rows, heads, dim = query.shape
    shape = AttentionShape(heads, kv.k.shape[1], dim, kv.page_size, query.dtype, kv.k.dtype)
    limits = StepLimits(rows, step.num_requests)
    work = AttentionWork(shape, limits, str(query.device), exact=exact, tiles=tiles)
    work.fill(step, rows, shared)
    output = torch.empty((rows, heads, dim), dtype=query.dtype, device=query.device)
    attend(query, kv, step.page_tables, work, output)
    return output
