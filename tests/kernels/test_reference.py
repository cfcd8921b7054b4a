"""The reference operations against fp64 arithmetic, and their one special property: exactness."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from radixchat.kernels import reference
from radixchat.kernels.kv_pages import KVLayer, empty_pages
from radixchat.kernels.ragged import Ragged, ragged
from radixchat.kernels.reference import KEY_TILE, ROW_ALIGNMENT

KV_HEADS, GROUP, DIM = 3, 3, 64
HEADS = KV_HEADS * GROUP


def paged(length: int, page_size: int, seed: int = 0) -> tuple[KVLayer, list[int]]:
    """K and V whose pages lie in random order, and the page table; NaN-free, not zero."""
    generator = torch.Generator().manual_seed(seed)
    pages = -(-length // page_size)
    kv = empty_pages(1, pages + 3, KV_HEADS, page_size, DIM, torch.float32, "cpu").layer(0)
    kv.k.copy_(torch.randn(kv.k.shape, generator=generator))
    kv.v.copy_(torch.randn(kv.v.shape, generator=generator))
    return kv, torch.randperm(pages + 3, generator=generator)[:pages].tolist()


def flat(cache: Tensor, table: list[int], length: int) -> Tensor:
    """The positions in order, [length, kv_heads, dim]."""
    return cache[table].transpose(1, 2).flatten(0, 1)[:length]


def one(kv: KVLayer, rows: int, length: int, table: list[int], num_rows: int = 0) -> Ragged:
    """A step of one request."""
    return ragged([rows], [length], [table], kv.page_size, num_rows or rows, "cpu")


def naive(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal attention from its definition in fp64; query rows are the last positions."""
    rows, length = query.shape[0], keys.shape[0]
    output = torch.empty(rows, HEADS, DIM, dtype=torch.float64)
    for row in range(rows):
        visible = length - rows + row + 1
        for head in range(HEADS):
            k = keys[:visible, head // GROUP].double()
            v = values[:visible, head // GROUP].double()
            weights = torch.softmax(k @ query[row, head].double() / DIM**0.5, 0)
            output[row, head] = weights @ v
    return output


@pytest.mark.parametrize("page_size", [1, 8, 16, 32])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, KEY_TILE - 1, KEY_TILE, KEY_TILE + 1, 600])
def test_attention_equals_its_definition(length: int, page_size: int) -> None:
    """Paged attention over scattered pages is causal attention, at every length around a tile."""
    kv, table = paged(length, page_size)
    rows = min(length, 5)
    query = torch.randn(rows, HEADS, DIM, generator=torch.Generator().manual_seed(1))
    padded = functional.pad(query, (0, 0, 0, 0, 0, -rows % ROW_ALIGNMENT))
    step = one(kv, rows, length, table, padded.shape[0])
    output = reference.paged_attention(padded, kv, step)
    expected = naive(query, flat(kv.k, table, length), flat(kv.v, table, length))
    torch.testing.assert_close(output[:rows].double(), expected, atol=2e-5, rtol=1e-5)
    assert not output[rows:].any(), "padding rows come back as zeros"


def test_attention_of_a_ragged_batch_equals_each_request_alone() -> None:
    """Requests of different lengths and row counts do not see or disturb each other."""
    lengths, counts = [7, 300, 1, 64], [7, 3, 1, 1]
    kv, table = paged(sum(-(-n // 16) * 16 for n in lengths), 16)
    tables, taken = list[list[int]](), 0
    for length in lengths:
        pages = -(-length // 16)
        tables.append(table[taken : taken + pages])
        taken += pages
    query = torch.randn(sum(counts), HEADS, DIM, generator=torch.Generator().manual_seed(2))
    starts = [0, 7, 10, 11, 12]
    step = ragged(counts, lengths, tables, 16, sum(counts), "cpu")
    together = reference.paged_attention(query, kv, step)
    for i, length in enumerate(lengths):
        part = query[starts[i] : starts[i + 1]]
        alone = reference.paged_attention(part, kv, one(kv, counts[i], length, tables[i]))
        assert torch.equal(together[starts[i] : starts[i + 1]], alone)


def chunked(query: Tensor, caches: tuple[KVLayer, list[int]], cuts: list[int]) -> Tensor:
    """Attention of all rows, computed in chunks between the cuts."""
    kv, table = caches
    bounds = [0, *cuts, query.shape[0]]
    parts = [
        reference.paged_attention(query[a:b], kv, one(kv, b - a, b, table))
        for a, b in itertools.pairwise(bounds)
    ]
    return torch.cat(parts)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """The number of torch's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_attention_is_the_same_to_the_bit_for_every_cut_of_the_prompt() -> None:
    """A row's result does not depend on which rows are computed with it."""
    caches = paged(600, 16)
    query = torch.randn(600, HEADS, DIM, generator=torch.Generator().manual_seed(3))
    whole = chunked(query, caches, [])
    for cuts in ([1], [255], [256], [257], [1, 2, 3], [599], list(range(7, 600, 13))):
        assert torch.equal(whole, chunked(query, caches, cuts)), cuts


def test_torch_attention_does_not_have_that_property() -> None:
    """Control: scaled_dot_product_attention gives other bits for another cut."""
    generator = torch.Generator().manual_seed(4)
    q, k, v = (torch.randn(1, HEADS, 600, DIM, generator=generator) for _ in range(3))
    causal = torch.ones(600, 600, dtype=torch.bool).tril()
    whole = functional.scaled_dot_product_attention(q, k, v, attn_mask=causal)
    differing = 0
    for cut in (1, 255, 257, 599):
        tail = functional.scaled_dot_product_attention(q[:, :, cut:], k, v, attn_mask=causal[cut:])
        differing += not torch.equal(whole[:, :, cut:], tail)
    assert differing > 0


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("shape", [(576, 576), (576, 192), (576, 1536), (1536, 576)])
def test_linear_rows_do_not_depend_on_their_number(shape: tuple[int, int]) -> None:
    """Any aligned number of rows gives each row the same bits; one row, the control, does not."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(256, shape[0], generator=generator)
    weight = torch.randn(shape[1], shape[0], generator=generator)
    whole = reference.linear(x, weight)
    for rows in (4, 8, 12, 16, 64, 128, 252):
        assert torch.equal(reference.linear(x[:rows], weight), whole[:rows]), rows
        assert torch.equal(reference.linear(x[4 : 4 + rows], weight), whole[4 : 4 + rows]), rows
    assert not torch.equal(functional.linear(x[:1], weight), whole[:1])


def test_linear_refuses_unaligned_rows() -> None:
    """A batch that was not padded is a bug, not a slower path."""
    with pytest.raises(AssertionError):
        reference.linear(torch.zeros(3, 8), torch.zeros(8, 8))


def test_rms_norm_and_swiglu_equal_their_definitions() -> None:
    """The elementwise operations, against fp64; each row the same bits alone in four or in 64."""
    x = torch.randn(64, 576, generator=torch.Generator().manual_seed(6))
    weight = torch.randn(576, generator=torch.Generator().manual_seed(7))
    wide = x.double()
    expected = wide / (wide.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    normed = reference.rms_norm(x, weight, 1e-5)
    torch.testing.assert_close(normed.double(), expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(reference.rms_norm(x[8:12], weight, 1e-5), normed[8:12])
    gated = reference.swiglu(torch.cat((x, x.flip(0)), -1))
    torch.testing.assert_close(
        gated.double(), wide * torch.sigmoid(wide) * wide.flip(0), atol=1e-5, rtol=1e-5
    )
    few = torch.cat((x[8:12], x.flip(0)[8:12]), -1)
    assert torch.equal(reference.swiglu(few), gated[8:12])


def test_store_and_copy_touch_exactly_their_slots() -> None:
    """store_kv writes the named slots of one layer, copy_slots those of all layers."""
    pages = empty_pages(2, 4, KV_HEADS, 8, DIM, torch.float32, "cpu")
    key, value = torch.ones(4, KV_HEADS, DIM), torch.full((4, KV_HEADS, DIM), 2.0)
    reference.store_kv(key, value, pages.layer(1), torch.tensor([5, 9, 31, -1]))
    assert not pages.k[0].any()
    assert not pages.v[0].any()
    for page, slot in ((0, 5), (1, 1), (3, 7)):
        assert pages.k[1, page, :, slot].eq(1).all()
        assert pages.v[1, page, :, slot].eq(2).all()
    assert pages.k.sum() == 3 * KV_HEADS * DIM
    before = pages.k.clone()
    pages.copy_slots([(1, 2, 2)])
    assert torch.equal(pages.k[:, 2, :, :2], before[:, 1, :, :2])
    pages.k[:, 2] = 0
    assert torch.equal(pages.k, before)


def test_int8_kv_is_as_close_as_half_a_step() -> None:
    """Codes and scale give the number back within half a step; zeros and huge numbers too."""
    x = torch.randn(5, KV_HEADS, DIM, generator=torch.Generator().manual_seed(10)) * 3
    x[0], x[1, 0, 0] = 0.0, 60000.0
    codes, scale = reference.quantize_kv(x)
    error = (codes.float() * scale.float().unsqueeze(-1) - x).abs().amax(-1)
    assert (error <= scale.float() * 0.5 * (1 + 2**-9) + 127 * scale.float() * 2**-11).all()
    assert not codes[0].any()


def test_rotate_turns_pairs_of_halves() -> None:
    """Component i and i + dim / 2 are turned by the angle of their position; lengths stay."""
    x = torch.randn(4, 2, 8, generator=torch.Generator().manual_seed(8))
    angles = torch.rand(4, 4, generator=torch.Generator().manual_seed(9))
    turned = reference.rotate(x, angles.cos(), angles.sin())
    pairs = torch.complex(x[..., :4], x[..., 4:])
    expected = pairs * torch.polar(torch.ones(4, 1, 4), angles.unsqueeze(1))
    torch.testing.assert_close(turned, torch.cat((expected.real, expected.imag), -1))
