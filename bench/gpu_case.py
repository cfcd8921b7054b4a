"""Attention to be checked and timed: a step's shape as numbers, and random tensors that have it.

Pages lie in random order, pages of nobody hold NaN, and rows have the lengths that are told: what
reads beside the table, or behind a row's end, shows. Knows no kernel and no time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from radixchat.kernels.kv_pages import KVLayer, empty_pages
from radixchat.kernels.ragged import Ragged, ragged
from radixchat.kernels.reference import quantize_kv


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Of one layer's attention."""

    heads: int
    kv_heads: int
    dim: int


LLAMA_8B = HeadShape(32, 8, 128)
SMOLLM2_135M = HeadShape(9, 3, 64)


@dataclass(frozen=True, slots=True)
class AttentionCase:
    """Request i computes its last counts[i] of lengths[i] positions.

    shared: the first so many positions of all requests have the same pages.
    """

    name: str
    shape: HeadShape
    counts: tuple[int, ...]
    lengths: tuple[int, ...]
    kv_dtype: torch.dtype
    page_size: int = 16
    shared: int = 0

    def __post_init__(self) -> None:
        assert len(self.counts) == len(self.lengths)
        assert self.shared % self.page_size == 0
        pairs = zip(self.counts, self.lengths, strict=True)
        assert all(n <= length - self.shared for n, length in pairs)

    @property
    def kv_bytes(self) -> int:
        """Of all positions' K and V, scales included, each read by its request."""
        return sum(self.lengths) * self._bytes_per_token

    @property
    def unique_bytes(self) -> int:
        """The same with shared positions once."""
        return self.kv_bytes - (len(self.lengths) - 1) * self.shared * self._bytes_per_token

    @property
    def operations(self) -> int:
        """Multiplications and additions of scores and sums, without what is masked."""
        shape, total = self.shape, 0
        for count, length in zip(self.counts, self.lengths, strict=True):
            total += count * (length - count) + count * (count + 1) // 2
        return 4 * shape.heads * shape.dim * total

    @property
    def _bytes_per_token(self) -> int:
        numbers = self.shape.dim * self.kv_dtype.itemsize
        return 2 * self.shape.kv_heads * (numbers + 2 * (self.kv_dtype == torch.int8))


@dataclass(frozen=True, slots=True)
class AttentionTensors:
    """A case on a device. keys, values: what the pages hold, [positions, kv_heads, dim] a request,
    as the kernels see it after INT8 rounding; None where they were not asked for."""

    query: Tensor
    kv: KVLayer
    step: Ragged


def attention_tensors(
    case: AttentionCase, dtype: torch.dtype, device: str, seed: int = 0
) -> AttentionTensors:
    """Random tensors of the case; dtype: of the queries."""
    shape, rows = case.shape, sum(case.counts)
    tables = page_tables(case, seed)
    pages = 1 + max(max(table) for table in tables)
    layers = empty_pages(
        1, pages + 1, shape.kv_heads, case.page_size, shape.dim, case.kv_dtype, device
    )
    kv = layers.layer(0)
    generator = torch.Generator(device).manual_seed(seed)
    for cache, scales in ((kv.k, kv.k_scale), (kv.v, kv.v_scale)):
        # A layer at a time: [pages, kv_heads, page_size, dim] in the numbers' own order.
        for start in range(0, pages, 4096):
            part = cache[start : min(start + 4096, pages)]
            numbers = torch.randn(part.shape, generator=generator, device=device)
            if scales is None:
                part.copy_(numbers)
            else:
                codes, scale = quantize_kv(numbers)
                part.copy_(codes)
                scales[start : start + len(part)] = scale
    _poison(kv, tables, case)
    query = torch.randn(rows, shape.heads, shape.dim, generator=generator, device=device).to(dtype)
    step = ragged(case.counts, case.lengths, tables, case.page_size, rows, device)
    return AttentionTensors(query, kv, step)


def page_tables(case: AttentionCase, seed: int = 0) -> list[list[int]]:
    """Each request's pages, in random order; those of shared positions are the same ones."""
    own = [-(-(length - case.shared) // case.page_size) for length in case.lengths]
    common = case.shared // case.page_size
    numbers = list(range(common + sum(own)))
    random.Random(seed).shuffle(numbers)
    tables, start = [], common
    for count in own:
        tables.append(numbers[:common] + numbers[start : start + count])
        start += count
    return tables


def _poison(kv: KVLayer, tables: Sequence[Sequence[int]], case: AttentionCase) -> None:
    """NaN in the page that nobody has, and behind each request's last position."""
    ends = [
        (table[-1], (n - 1) % case.page_size + 1)
        for table, n in zip(tables, case.lengths, strict=True)
    ]
    unused = kv.k.shape[0] - 1
    poisoned = (kv.k, kv.v) if kv.k_scale is None else (kv.k_scale, kv.v_scale)
    for part in poisoned:
        assert part is not None
        part[unused] = torch.nan
        for page, offset in ends:
            part[page, :, offset:] = torch.nan
