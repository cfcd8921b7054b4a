"""Paged attention on the CPU: its definition in fp64, and rows that have one result to the bit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from radixchat.kernels import reference
from radixchat.kernels.cpu_attention import paged_attention
from radixchat.kernels.cpu_kv import describe_kv
from radixchat.kernels.kv_pages import KVLayer, empty_pages
from radixchat.kernels.ragged import Ragged, ragged

KV_HEADS = 2
FORMATS = pytest.mark.parametrize("dtype", [torch.float32, torch.int8], ids=["fp32", "int8"])


def normal(*shape: int, seed: int) -> Tensor:
    """Numbers of a normal distribution."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True, slots=True)
class Sequences:
    """K and V of some sequences in pages of random order; what they don't own is NaN."""

    kv: KVLayer
    tables: list[list[int]]

    def attend(
        self, query: Tensor, counts: Sequence[int], lengths: Sequence[int], num_parts: int = 1
    ) -> Tensor:
        """Attention of the last counts[i] rows of lengths[i]."""
        return paged_attention(query, self.kv, self.step(counts, lengths), num_parts)

    def step(self, counts: Sequence[int], lengths: Sequence[int]) -> Ragged:
        """The step, its rows without padding."""
        return ragged(counts, lengths, self.tables, self.kv.page_size, sum(counts), "cpu")


def poison(kv: KVLayer) -> None:
    """NaN in every slot: as a number, or as the scale of a code."""
    for part in (kv.k, kv.v) if kv.k_scale is None else (kv.k_scale, kv.v_scale):
        assert part is not None
        part.fill_(torch.nan)


def sequences(
    lengths: Sequence[int],
    page_size: int = 16,
    dim: int = 64,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Sequences:
    """Sequences with the same K and V for the same seed and dim, whatever the page size."""
    needs = [-(-length // page_size) for length in lengths]
    order = torch.randperm(sum(needs) + 3, generator=torch.Generator().manual_seed(seed)).tolist()
    kv = empty_pages(1, len(order), KV_HEADS, page_size, dim, dtype, "cpu").layer(0)
    poison(kv)
    tables = list[list[int]]()
    for i, (length, need) in enumerate(zip(lengths, needs, strict=True)):
        tables.append([order.pop() for _ in range(need)])
        slots = ragged([length], [length], tables[-1:], page_size, length, "cpu").slots
        key = normal(length, KV_HEADS, dim, seed=seed + 10 * i + 1)
        reference.store_kv(key, normal(length, KV_HEADS, dim, seed=seed + 10 * i + 2), kv, slots)
    return Sequences(kv, tables)


def defined(query: Tensor, kv: KVLayer, table: list[int], length: int) -> Tensor:
    """Causal attention of the last rows of a sequence from its definition, in fp64."""
    rows, heads, dim = query.shape
    flat = []
    for cache, scales in ((kv.k, kv.k_scale), (kv.v, kv.v_scale)):
        numbers = cache[table].transpose(1, 2).flatten(0, 1)[:length].double()
        if scales is not None:
            numbers *= scales[table].transpose(1, 2).flatten(0, 1)[:length].double().unsqueeze(-1)
        flat.append(numbers.repeat_interleave(heads // KV_HEADS, dim=1).transpose(0, 1))
    scores = query.transpose(0, 1).double() @ flat[0].transpose(1, 2) / dim**0.5
    future = torch.ones(rows, length, dtype=torch.bool).triu(length - rows + 1)
    attended: Tensor = scores.masked_fill(future, -torch.inf).softmax(-1) @ flat[1]
    return attended.transpose(0, 1)


@FORMATS
@pytest.mark.parametrize("page_size", [1, 8, 16, 32])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 255, 256, 257, 600])
def test_attention_equals_its_definition(length: int, page_size: int, dtype: torch.dtype) -> None:
    """At every length around a page and a tile, one row and a few."""
    world = sequences([length], page_size, dtype=dtype)
    for rows in {1, min(length, 7)}:
        query = normal(rows, 3 * KV_HEADS, 64, seed=9)
        expected = defined(query, world.kv, world.tables[0], length)
        output = world.attend(query, [rows], [length])
        torch.testing.assert_close(output.double(), expected, atol=2e-5, rtol=1e-5)


@FORMATS
@pytest.mark.parametrize("group", [1, 2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("dim", [16, 48, 64, 80, 128])
def test_attention_of_any_head_size_and_group_equals_its_definition(
    dim: int, group: int, dtype: torch.dtype
) -> None:
    """A chunk whose rows fill several blocks, at a start that is no tile's."""
    world = sequences([290], dim=dim, dtype=dtype)
    query = normal(120, group * KV_HEADS, dim, seed=9)
    expected = defined(query, world.kv, world.tables[0], 290)
    output = world.attend(query, [120], [290], num_parts=2)
    torch.testing.assert_close(output.double(), expected, atol=2e-5, rtol=1e-5)


def chunked(world: Sequences, query: Tensor, cuts: Sequence[int], num_parts: int = 1) -> Tensor:
    """All rows of the first sequence, computed in chunks between the cuts."""
    bounds = itertools.pairwise([0, *cuts, len(query)])
    return torch.cat([world.attend(query[a:b], [b - a], [b], num_parts) for a, b in bounds])


@FORMATS
@pytest.mark.parametrize("group", [1, 3, 8])
def test_rows_are_the_same_to_the_bit_for_every_cut_of_the_prompt(
    group: int, dtype: torch.dtype
) -> None:
    """Whole, cut anywhere, and built row by row, as decoding does."""
    world = sequences([600], dtype=dtype)
    query = normal(600, group * KV_HEADS, 64, seed=9)
    whole = chunked(world, query, [])
    for cuts in ([1], [255], [256], [257], [1, 2, 3], [599], range(7, 600, 13), range(1, 600)):
        assert torch.equal(chunked(world, query, cuts), whole), cuts


@FORMATS
@pytest.mark.parametrize("num_parts", [2, 3, 5, 16, 64])
def test_rows_are_the_same_to_the_bit_for_any_number_of_parts(
    num_parts: int, dtype: torch.dtype
) -> None:
    """Decoding whose tiles are shared out, a long chunk, and a draft of a few rows."""
    world = sequences([1100], dtype=dtype)
    query = normal(500, 3 * KV_HEADS, 64, seed=9)
    for rows in (1, 4, 500):
        alone = world.attend(query[:rows], [rows], [1100])
        assert torch.equal(world.attend(query[:rows], [rows], [1100], num_parts), alone), rows


@FORMATS
@pytest.mark.parametrize("num_parts", [1, 2, 3])
def test_rows_of_a_mixed_batch_are_those_of_each_request_alone(
    num_parts: int, dtype: torch.dtype
) -> None:
    """Prefill, drafts and decode rows together, in any order."""
    lengths, counts = [40, 700, 1, 257, 513], [40, 1, 1, 5, 300]
    world = sequences(lengths, dtype=dtype)
    query = normal(sum(counts), 3 * KV_HEADS, 64, seed=9)
    parts = torch.split(query, counts)
    together = torch.split(world.attend(query, counts, lengths, num_parts), counts)
    for i in range(len(lengths)):
        own = Sequences(world.kv, world.tables[i : i + 1])
        assert torch.equal(together[i], own.attend(parts[i], [counts[i]], [lengths[i]])), i


@FORMATS
@pytest.mark.parametrize("page_size", [1, 8, 24, 32, 256])
def test_rows_are_the_same_to_the_bit_for_any_page_size(page_size: int, dtype: torch.dtype) -> None:
    """Where K is read in its page and where it is copied."""
    query = normal(60, 3 * KV_HEADS, 64, seed=9)
    expected = sequences([300], 16, dtype=dtype).attend(query, [60], [300])
    assert torch.equal(
        sequences([300], page_size, dtype=dtype).attend(query, [60], [300]), expected
    )


@FORMATS
def test_k_may_lie_position_by_position(dtype: torch.dtype) -> None:
    """The layout of a GPU gives the same bits."""
    world = sequences([300], dtype=dtype)
    kv = world.kv
    other = KVLayer(kv.k.contiguous(), kv.v, kv.k_scale, kv.v_scale)
    query = normal(60, 3 * KV_HEADS, 64, seed=9)
    turned = Sequences(other, world.tables).attend(query, [60], [300])
    assert kv.k.stride() != other.k.stride()
    assert torch.equal(turned, world.attend(query, [60], [300]))


@FORMATS
def test_a_row_does_not_see_what_comes_after_it(dtype: torch.dtype) -> None:
    """NaN at a position reaches the rows from there on, all of them, and no other."""
    world = sequences([300], dtype=dtype)
    query = normal(300, 3 * KV_HEADS, 64, seed=9)
    clean = world.attend(query, [300], [300])
    page, offset = world.tables[0][270 // 16], 270 % 16
    for part in (world.kv.k, world.kv.v) if dtype == torch.float32 else (world.kv.v_scale,):
        assert part is not None
        before = part[page, :, offset].clone()
        part[page, :, offset] = torch.nan
        seen = world.attend(query, [300], [300])
        assert torch.equal(seen[:270], clean[:270])
        assert seen[270:].isnan().all()
        part[page, :, offset] = before


def test_a_score_beyond_fp32_is_not_hidden() -> None:
    """K so large that a score overflows makes the row's result NaN, not a plausible number."""
    world = sequences([20])
    world.kv.k[world.tables[0][0], :, 3] = 1e38
    output = world.attend(torch.full((1, 2 * KV_HEADS, 64), 10.0), [1], [20])
    assert output.isnan().all()


def test_sharp_and_flat_scores() -> None:
    """One key that outweighs all others, and keys that all weigh the same."""
    world = sequences([400])
    query = torch.zeros(1, KV_HEADS, 64)
    flat = world.attend(query, [1], [400])
    where = torch.tensor(world.tables[0])
    mean = world.kv.v[where].transpose(1, 2).flatten(0, 1)[:400].mean(0)
    torch.testing.assert_close(flat[0], mean, atol=1e-6, rtol=1e-5)
    page, offset = world.tables[0][300 // 16], 300 % 16
    sharp = world.attend(100 * world.kv.k[page, :, offset].unsqueeze(0), [1], [400])
    torch.testing.assert_close(sharp[0], world.kv.v[page, :, offset], atol=1e-6, rtol=0)


def test_padding_rows_come_back_as_zeros() -> None:
    """Rows behind the last request's belong to nobody."""
    world = sequences([20])
    step = ragged([3], [20], world.tables, 16, 8, "cpu")
    output = paged_attention(normal(8, 2 * KV_HEADS, 64, seed=9), world.kv, step)
    assert not output[3:].any()
    assert output[:3].all()


def test_no_request_is_no_work() -> None:
    """An empty step has an empty result."""
    world = sequences([])
    assert world.attend(torch.empty(0, KV_HEADS, 64), [], [], num_parts=2).shape == (
        0,
        KV_HEADS,
        64,
    )


def test_what_the_kernels_cannot_read_is_refused() -> None:
    """With the value in the message."""
    with pytest.raises(ValueError, match="head size 24"):
        describe_kv(empty_pages(1, 1, 2, 16, 24, torch.float32, "cpu").layer(0))
    with pytest.raises(ValueError, match="bfloat16"):
        describe_kv(empty_pages(1, 1, 2, 16, 32, torch.bfloat16, "cpu").layer(0))
    kv = sequences([20]).kv
    with pytest.raises(ValueError, match="V of shape"):
        describe_kv(KVLayer(kv.k, kv.v.transpose(2, 3).contiguous().transpose(2, 3)))
