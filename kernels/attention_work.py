"""Who computes what of a step's attention: the list of work, planned on the host.

A block is a few rows with the keys they see, an item a stretch of a block's keys. Blocks are laid
end to end, longest first, and cut into equal shares, one a program: no program waits for another's
long request. What is cut is merged from its parts. numpy only; knows no tensor and no kernel.

    blocks   |aaaaaaaaaaaaaaaaaaa|bbbbbb|ccc|ddd|ee|
    programs |     0    |    1    |    2    |   3  |      a: two parts, b: two, c: two, d, e: whole
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Ints = NDArray[np.int64]

# An item's and a block's numbers: where its rows begin in the list of rows, and how many; the
# position of the first; its keys; its page table; the index of its first part, -1 if it is whole.
ROW, NUM_ROWS, POSITION, FIRST_KEY, END_KEY, TABLE, PART, ITEM_FIELDS = 0, 1, 2, 3, 4, 5, 6, 8
# The position of a row that sees all keys of its item.
BEHIND_ALL = 1 << 30
# Blocks of at most this share of a program's work are not cut: that unbalances by half of it.
WHOLE_SHARE = 16


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """Requests, by their index in the step, whose first num_tokens positions have equal pages.

    num_tokens is a multiple of the page size, and no row of the step is among them.
    """

    requests: tuple[int, ...]
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Share:
    """How blocks of one width are made and shared out: rows a block, keys a tile, programs."""

    block_rows: int
    tile: int
    programs: int


@dataclass(frozen=True, slots=True)
class WorkShape:
    """What plans depend on besides the step.

    Requests of at most narrow.block_rows rows go to the narrow list, the others and shared
    prefixes to the wide one. split: keys of a part, at absolute positions, in exact mode; 0: a
    part is as long as the item. fixed: a list always has its number of programs, so that the
    launch is the same for every step; else blocks that need no cut get a program each.
    """

    narrow: Share
    wide: Share
    split: int
    max_parts: int
    fixed: bool


@dataclass(frozen=True, slots=True)
class WorkList:
    """items: [n, ITEM_FIELDS]; program p does items starts[p]:starts[p + 1]."""

    items: Int32s
    starts: Int32s

    def keys_by_program(self) -> Ints:
        """Keys that each program walks."""
        keys = (self.items[:, END_KEY] - self.items[:, FIRST_KEY]).astype(np.int64)
        sums = np.concatenate(([0], np.cumsum(keys)))
        return sums[self.starts[1:]] - sums[self.starts[:-1]]

    def pages_read(self, page_size: int) -> int:
        """Pages that items read, for each head; an item's blocks of rows read them together."""
        first, end = self.items[:, FIRST_KEY], self.items[:, END_KEY]
        return int((-(-end // page_size) - first // page_size).sum())


@dataclass(frozen=True, slots=True)
class StepWork:
    """One step's work.

    rows: what items count in: the step's rows in order, then those of each shared prefix.
    part_base, part_count: [rows of the step], the slots of a row's parts; merged: rows that have
    parts.
    """

    narrow: WorkList
    wide: WorkList
    rows: Int32s
    part_base: Int32s
    part_count: Int32s
    merged: Int32s


def plan_work(
    starts: NDArray[np.int32],
    lengths: NDArray[np.int32],
    num_rows: int,
    shape: WorkShape,
    shared: Sequence[SharedPrefix] = (),
) -> StepWork:
    """The work of a step of num_rows rows, the padding among them; starts, lengths as in Ragged.

    Without room for the parts, prefixes are read by each request, and then requests stay whole.
    """
    if shape.split:
        shared = [
            SharedPrefix(s.requests, s.num_tokens // shape.split * shape.split) for s in shared
        ]
    for prefixes, cuts in ((shared, True), ((), True), ((), False)):
        work = _plan(starts, lengths, num_rows, shape, [s for s in prefixes if s.num_tokens], cuts)
        if work is not None:
            return work
    raise AssertionError("work without cuts has no parts")


def _plan(
    starts: NDArray[np.int32],
    lengths: NDArray[np.int32],
    num_rows: int,
    shape: WorkShape,
    shared: Sequence[SharedPrefix],
    cuts: bool,
) -> StepWork | None:
    blocks, prefix = _own_blocks(starts, lengths, shape, shared)
    num_own = len(blocks)
    rows = np.arange(num_rows, dtype=np.int32)
    if shared:
        shared_blocks, shared_rows = _shared_blocks(starts, num_rows, shared)
        blocks, rows = np.concatenate((blocks, shared_blocks)), np.concatenate((rows, shared_rows))
    is_narrow = blocks[:, NUM_ROWS] <= shape.narrow.block_rows
    is_narrow[num_own:] = False
    counts = np.zeros(len(blocks), dtype=np.int64)
    lists = list[tuple[Ints, Ints, Ints]]()
    for share, chosen in ((shape.narrow, is_narrow), (shape.wide, ~is_narrow)):
        items, block, item_starts = _cut(blocks, chosen.nonzero()[0], share, shape, cuts)
        counts += np.bincount(block, minlength=len(blocks))
        lists.append((items, block, item_starts))

    keys = blocks[:, END_KEY] - blocks[:, FIRST_KEY]
    parts = -(-keys // shape.split) if shape.split else counts
    before = np.zeros(len(blocks), dtype=np.int64)  # parts of the prefix
    before[:num_own] = np.concatenate((parts[num_own:], [0]))[prefix]
    merges = (counts > 1) | (before > 0)
    merges[num_own:] = True
    part_count = np.zeros(num_rows, dtype=np.int32)
    totals = (before + parts)[:num_own] * merges[:num_own]
    part_count[: starts[-1]] = np.repeat(totals, blocks[:num_own, NUM_ROWS])
    part_ends = np.cumsum(part_count, dtype=np.int32)
    if num_rows and part_ends[-1] > shape.max_parts:
        return None
    for items, block, _ in lists:
        index = items[:, PART] + before[block]
        items[:, PART] = np.where(merges[block], index, -1)
    narrow, wide = (WorkList(i.astype(np.int32), s.astype(np.int32)) for i, _, s in lists)
    if num_rows > starts[-1]:
        narrow = _with_padding(narrow, int(starts[-1]), num_rows)
    merged = part_count.nonzero()[0].astype(np.int32)
    return StepWork(narrow, wide, rows, part_ends - part_count, part_count, merged)


def _own_blocks(
    starts: NDArray[np.int32],
    lengths: NDArray[np.int32],
    shape: WorkShape,
    shared: Sequence[SharedPrefix],
) -> tuple[Ints, Ints]:
    """Blocks of each request's rows, in the order of rows; the index of each one's prefix or -1."""
    rows = np.diff(starts).astype(np.int64)
    height = np.where(
        rows <= shape.narrow.block_rows, shape.narrow.block_rows, shape.wide.block_rows
    )
    per_request = -(-rows // height)
    request = np.repeat(np.arange(len(rows)), per_request)
    ends = np.cumsum(per_request)
    done = (np.arange(len(request)) - (ends - per_request)[request]) * height[request]
    blocks = np.zeros((len(request), ITEM_FIELDS), dtype=np.int64)
    blocks[:, ROW] = starts[request] + done
    blocks[:, NUM_ROWS] = np.minimum(height[request], rows[request] - done)
    blocks[:, POSITION] = (lengths - rows)[request] + done
    blocks[:, END_KEY] = blocks[:, POSITION] + blocks[:, NUM_ROWS]
    blocks[:, TABLE] = request
    prefix = np.full(len(rows), -1, dtype=np.int64)
    for index, group in enumerate(shared):
        members = list(group.requests)
        first_new = (lengths[members] - rows[members]).min()
        assert group.num_tokens <= first_new, (group, first_new)
        assert (prefix[members] == -1).all(), f"in two groups: {group}"
        prefix[members] = index
    if shared:
        tokens = np.array([*(group.num_tokens for group in shared), 0])
        blocks[:, FIRST_KEY] = tokens[prefix][request]
    return blocks, prefix[request]


def _shared_blocks(
    starts: NDArray[np.int32], num_rows: int, shared: Sequence[SharedPrefix]
) -> tuple[Ints, Int32s]:
    """A block for each prefix, and their rows, which follow the step's in the list of rows."""
    blocks = np.zeros((len(shared), ITEM_FIELDS), dtype=np.int64)
    rows = list[Int32s]()
    for block, group in zip(blocks, shared, strict=True):
        new = [np.arange(starts[i], starts[i + 1], dtype=np.int32) for i in group.requests]
        block[ROW] = num_rows + sum(map(len, rows))
        rows += new
        block[NUM_ROWS] = sum(map(len, new))
        block[POSITION], block[END_KEY], block[TABLE] = (
            BEHIND_ALL,
            group.num_tokens,
            group.requests[0],
        )
    return blocks, np.concatenate(rows)


def _cut(
    blocks: Ints, chosen: Ints, share: Share, shape: WorkShape, cuts: bool
) -> tuple[Ints, Ints, Ints]:
    """The chosen blocks' items, each one's block, and where programs begin.

    Their PART counts from 0 in each block. A cut falls on the border of a tile, in exact mode of
    a split: the nearest to the equal share's end.
    """
    if not len(chosen):
        nothing = np.zeros(0, dtype=np.int64)
        return blocks[chosen], nothing, np.zeros(share.programs + 1, dtype=np.int64)
    tiles = -(-(blocks[chosen, END_KEY] - blocks[chosen, FIRST_KEY]) // share.tile)
    cost = -(-blocks[chosen, NUM_ROWS] // share.block_rows)  # of a tile
    order = np.argsort(-tiles * cost, kind="stable")
    chosen, tiles, cost = chosen[order], tiles[order], cost[order]
    ends = np.cumsum(tiles * cost)
    begins, total = ends - tiles * cost, int(ends[-1])
    whole = not cuts or tiles[0] * cost[0] * WHOLE_SHARE * share.programs <= total
    if whole and not shape.fixed:
        bounds, program_begins = begins, np.concatenate((begins, [total]))
    else:
        ideal = np.arange(share.programs + 1) * total // share.programs
        inside = np.minimum(np.searchsorted(ends, ideal, side="right"), len(chosen) - 1)
        step = tiles[inside] if whole else max(shape.split // share.tile, 1)
        unit = step * cost[inside]
        offset = (ideal - begins[inside] + unit // 2) // unit * unit
        program_begins = np.minimum(begins[inside] + offset, ends[inside])
        program_begins[-1] = total
        bounds = np.unique(np.concatenate((begins, program_begins)))[:-1]
    at = np.searchsorted(ends, bounds, side="right")
    items = blocks[chosen[at]]
    first = items[:, FIRST_KEY].copy()
    items[:, FIRST_KEY] += (bounds - begins[at]) // cost[at] * share.tile
    last = first + (np.append(bounds[1:], total) - begins[at]) // cost[at] * share.tile
    items[:, END_KEY] = np.minimum(items[:, END_KEY], last)
    if shape.split:
        items[:, PART] = (items[:, FIRST_KEY] - first) // shape.split
    else:
        items[:, PART] = np.arange(len(at)) - np.searchsorted(at, at)
    return items, chosen[at], np.searchsorted(bounds, program_begins)


def _with_padding(work: WorkList, first: int, end: int) -> WorkList:
    """The list with an item for the rows first..end, which see no key: they become zeros."""
    item = np.zeros((1, ITEM_FIELDS), dtype=np.int32)
    item[0, [ROW, NUM_ROWS, PART]] = first, end - first, -1
    starts = work.starts.copy()
    starts[-1] += 1
    return WorkList(np.concatenate((work.items, item)), starts)
