"""What the attention kernels read of a step: tensors of fixed size and place, filled once a step.

A captured graph replays the same launches with other numbers, so the numbers live at the same
addresses for ever. Knows what is launched; launches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from radixchat.kernels.attention_tiles import AttentionTiles, TileChoice, tile_choice
from radixchat.kernels.attention_work import (
    ITEM_FIELDS,
    Share,
    SharedPrefix,
    StepWork,
    WorkList,
    WorkShape,
    plan_work,
)
from radixchat.kernels.kv_pages import KVPages
from radixchat.kernels.layers import LayerShape
from radixchat.kernels.ragged import Ragged

# Keys of a part in exact mode, at absolute positions: as the tiles of the CPU's attention.
SPLIT_KEYS = 256
# What parts may take. The largest decode batch worth a share of an H200 (64 requests of 8k, 32
# heads of 128) takes 34 MB in exact mode and 5 MB else.
PART_BYTES = 128 << 20
# Parts that rows have room for in exact mode, one with another: 128k keys each.
EXACT_PARTS = 512
# Multiprocessors that work is shared out to where there are none: the interpreter's.
INTERPRETED_PROCESSORS = 4


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """What all steps of a model share; dtype: of query and output; kv_dtype: int8 has scales."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    page_size: int
    dtype: torch.dtype
    kv_dtype: torch.dtype

    @classmethod
    def of(cls, shape: LayerShape, dtype: torch.dtype, pages: KVPages) -> AttentionShape:
        """That of layers over those pages; dtype: of the layers' rows."""
        heads, page_size = (shape.num_heads, shape.num_kv_heads), pages.layer(0).page_size
        return cls(*heads, shape.head_dim, page_size, dtype, pages.k.dtype)

    @property
    def group(self) -> int:
        """Query heads of a KV head."""
        return self.num_heads // self.num_kv_heads


@dataclass(frozen=True, slots=True)
class StepLimits:
    """The largest step. fixed: every step is launched alike, for a graph: none has more rows of a
    request than a narrow block holds, and prefixes are shared only where cascade says so.
    """

    max_rows: int
    max_requests: int
    fixed: bool = False
    cascade: bool = True


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of the attention kernel: programs for each KV head, and what they read."""

    tiles: AttentionTiles
    items: Tensor
    starts: Tensor
    programs: int


class AttentionWork:
    """The work of one step at a time, on the device; `fill` before the step's first layer.

    rows, part_base, part_count, merged: as in StepWork; part_sums fp32 [parts, heads, dim] and
    part_totals fp32 [parts, heads, 2], the maximum and the total: states of parts, any content.
    """

    def __init__(
        self,
        shape: AttentionShape,
        limits: StepLimits,
        device: str,
        *,
        exact: bool = False,
        tiles: TileChoice | None = None,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self.shape = shape
        self.exact = exact
        self._limits = limits
        chosen = tiles or tile_choice(
            shape.head_dim, shape.group, shape.dtype, shape.kv_dtype, exact=exact
        )
        self._tiles = (chosen.narrow, chosen.wide)
        assert not exact or chosen.narrow == chosen.wide, "exact: one way of computing a row"
        narrow, wide = (_share(t, shape, _processors(device)) for t in self._tiles)
        part_size = shape.num_heads * (shape.head_dim + 2) * 4
        most = part_bytes // part_size
        max_parts = min(most, _parts(narrow, wide, limits, exact=exact))
        self._plan_shape = WorkShape(
            narrow, wide, SPLIT_KEYS if exact else 0, max_parts, limits.fixed
        )
        blocks = limits.max_requests + limits.max_rows // wide.block_rows
        most_items = (blocks + narrow.programs + 1, 2 * blocks + wide.programs)
        rows = limits.max_rows
        sizes = [n for most in most_items for n in (most * ITEM_FIELDS, most + 1)]
        sizes += [2 * rows, rows, rows, rows]
        # Each part begins on a 16-byte border: Triton compiles anew for one that does not.
        sizes = [-(-size // 4) * 4 for size in sizes]
        # Pageable: the copy has left it when it returns, so the next step may fill it.
        self._host = np.zeros(sum(sizes), dtype=np.int32)
        self._device = torch.zeros(len(self._host), dtype=torch.int32, device=device)
        self._host_parts = np.split(self._host, np.cumsum(sizes)[:-1])
        self._parts = torch.split_with_sizes(self._device, sizes)
        self.rows, self.part_base, self.part_count, self.merged = self._parts[4:]
        heads = (max_parts, shape.num_heads)
        self.part_sums = torch.empty((*heads, shape.head_dim), device=device)
        self.part_totals = torch.empty((*heads, 2), device=device)
        self.launches: tuple[Launch, ...] = ()
        self.merge_programs = 0

    def fill(self, step: Ragged, num_rows: int, shared: Sequence[SharedPrefix] = ()) -> StepWork:
        """Plan a step of num_rows rows with its padding, and send the plan to the device."""
        limits, plan_shape = self._limits, self._plan_shape
        assert num_rows <= limits.max_rows, (num_rows, limits)
        assert step.num_requests <= limits.max_requests, (step.num_requests, limits)
        assert limits.cascade or not shared, "no room for shared prefixes"
        work = plan_work(step.starts, step.lengths, num_rows, plan_shape, shared)
        lists = (work.narrow, work.wide)
        for part, values in zip(
            self._host_parts,
            (
                *(a for each in lists for a in (each.items.reshape(-1), each.starts)),
                work.rows,
                work.part_base,
                work.part_count,
                work.merged,
            ),
            strict=True,
        ):
            part[: len(values)] = values
        self._host_parts[-1][len(work.merged) :] = -1
        self._device.copy_(torch.from_numpy(self._host), non_blocking=True)
        wide_runs = limits.cascade or not limits.fixed
        assert wide_runs or not len(work.wide.items), "a request has more rows than a graph takes"
        self.launches = tuple(
            Launch(self._tiles[i], self._parts[2 * i], self._parts[2 * i + 1], programs)
            for i, each in enumerate(lists[: 1 + wide_runs])
            if (programs := self._programs(each))
        )
        self.merge_programs = limits.max_rows if limits.fixed else len(work.merged)
        return work

    def _programs(self, work: WorkList) -> int:
        return len(work.starts) - 1 if self._limits.fixed or len(work.items) else 0


class GrowingWork:
    """The work of steps of any shape, in tensors for the largest step so far."""

    def __init__(self, *, exact: bool = False) -> None:
        self._exact = exact
        self._work: AttentionWork | None = None
        self._max_rows = self._max_requests = 0

    def fill(self, shape: AttentionShape, device: str, step: Ragged, rows: int) -> AttentionWork:
        """The work of a step of so many rows, filled; the same object as long as it has room."""
        work, requests = self._work, step.num_requests
        grows = rows > self._max_rows or requests > self._max_requests
        if work is None or grows or shape != work.shape:
            # Doubling: a few steps make it as large as it will ever be.
            self._max_rows = max(rows, 2 * self._max_rows)
            self._max_requests = max(requests, 2 * self._max_requests)
            limits = StepLimits(self._max_rows, self._max_requests, cascade=False)
            work = self._work = AttentionWork(shape, limits, device, exact=self._exact)
        work.fill(step, rows)
        return work


def _processors(device: str) -> int:
    if not device.startswith("cuda"):
        return INTERPRETED_PROCESSORS
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _parts(narrow: Share, wide: Share, limits: StepLimits, *, exact: bool) -> int:
    """Parts that no step is likely to exceed; one that does is computed with fewer cuts."""
    if exact:
        return limits.max_rows * EXACT_PARTS
    # Each cut makes two parts of a block's rows, a shared prefix as many as its cuts.
    parts = 2 * narrow.programs * narrow.block_rows
    if limits.cascade or not limits.fixed:
        parts += 2 * wide.programs * wide.block_rows
    return parts + limits.cascade * limits.max_rows * (wide.programs + 2)


def _share(tiles: AttentionTiles, shape: AttentionShape, processors: int) -> Share:
    programs = max(1, processors * tiles.programs // shape.num_kv_heads)
    return Share(tiles.rows // shape.group, tiles.keys, programs)
