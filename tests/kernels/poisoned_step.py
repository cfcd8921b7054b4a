"""`PoisonedStep`: a step over scattered pages in which nothing may be read that was not written.

Slots that no request's position has are NaN, in pages of requests and in free ones. The expected
result is attention's definition in fp64 over the numbers as they were stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from radixchat.kernels.kv_pages import KVLayer
from radixchat.kernels.ragged import Ragged, ragged
from radixchat.kernels.reference import quantize_kv

FREE_PAGES = 3


@dataclass(frozen=True, slots=True)
class PoisonedStep:
    """query [rows, heads, dim] with padding; keys, values: of each request, fp64 as stored."""

    query: Tensor
    kv: KVLayer
    step: Ragged
    tables: list[list[int]]
    keys: list[Tensor]
    values: list[Tensor]

    def expected(self) -> Tensor:
        """fp64 [rows, heads, dim]; zeros for padding."""
        output = torch.zeros(self.query.shape, dtype=torch.float64)
        group = self.query.shape[1] // self.kv.k.shape[1]
        for i, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            start, end = int(self.step.starts[i]), int(self.step.starts[i + 1])
            rows = self.query[start:end].double().transpose(0, 1)
            k, v = (t.transpose(0, 1).repeat_interleave(group, 0) for t in (keys, values))
            scores = rows @ k.transpose(1, 2) / self.query.shape[2] ** 0.5
            hidden = torch.ones(end - start, len(keys)).triu(len(keys) - (end - start) + 1).bool()
            weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
            output[start:end] = (weights @ v).transpose(0, 1)
        return output

    def part(self, index: int, count: int, length: int) -> tuple[Tensor, Ragged]:
        """The query and step in which request `index` computes its last `count` of `length`."""
        size = int(self.step.lengths[index])
        first_row = int(self.step.starts[index + 1]) - size + length - count
        alone = ragged([count], [length], [self.tables[index]], self.kv.page_size, count, "cpu")
        return self.query[first_row : first_row + count], alone


def poisoned_step(
    counts: Sequence[int],
    lengths: Sequence[int],
    *,
    heads: tuple[int, int, int],
    page_size: int = 16,
    dtype: torch.dtype = torch.float32,
    int8: bool = False,
    padding: int = 0,
    shared: int = 0,
    sharpness: float = 1.0,
    by_dimension: bool = False,
) -> PoisonedStep:
    """heads: KV heads, group, dim. shared: leading tokens that all requests have in common, a
    multiple of the page size. sharpness: factor of the scores. by_dimension: K as it lies on a CPU.
    """
    kv_heads, group, dim = heads
    generator = torch.Generator().manual_seed(7)
    own = [-(-length // page_size) - shared // page_size for length in lengths]
    total = shared // page_size + sum(own) + FREE_PAGES
    # Page 0 is free: it is what a page number that was not loaded leads to.
    order = (1 + torch.randperm(total - 1, generator=generator)).tolist()
    trunk, taken = order[: shared // page_size], shared // page_size
    tables = list[list[int]]()
    for pages in own:
        tables.append(trunk + order[taken : taken + pages])
        taken += pages
    kv = _nothing((total, kv_heads, page_size, dim), torch.int8 if int8 else dtype, by_dimension)
    stored = list[list[Tensor]]()
    parts = ((kv.k, kv.k_scale), (kv.v, kv.v_scale))
    for cache, scales in parts:
        values = torch.randn(total, kv_heads, page_size, dim, generator=generator).to(dtype)
        wide = values.double()
        codes, found = quantize_kv(values)
        if scales is not None:
            wide = codes.double() * found.double().unsqueeze(-1)
        stored.append([])
        for table, length in zip(tables, lengths, strict=True):
            for index, page in enumerate(table):
                n = min(page_size, length - index * page_size)
                cache[page, :, :n] = (codes if scales is not None else values)[page, :, :n]
                if scales is not None:
                    scales[page, :, :n] = found[page, :, :n]
            stored[-1].append(wide[table].transpose(1, 2).flatten(0, 1)[:length])
    rows = sum(counts) + padding
    query = torch.randn(rows, kv_heads * group, dim, generator=generator) * sharpness
    step = ragged(counts, lengths, tables, page_size, rows, "cpu")
    return PoisonedStep(query.to(dtype), kv, step, tables, *stored)


def _nothing(shape: tuple[int, ...], dtype: torch.dtype, by_dimension: bool) -> KVLayer:
    """Pages of which nothing was written."""
    pages, kv_heads, page_size, dim = shape
    fill = 127 if dtype == torch.int8 else torch.nan
    k = torch.full(shape, fill, dtype=dtype)
    if by_dimension:
        k = torch.full((pages, kv_heads, dim, page_size), fill, dtype=dtype).transpose(-1, -2)
    v = torch.full(shape, fill, dtype=dtype)
    if dtype != torch.int8:
        return KVLayer(k, v)
    scales = [torch.full(shape[:-1], torch.nan, dtype=torch.float16) for _ in range(2)]
    return KVLayer(k, v, *scales)
