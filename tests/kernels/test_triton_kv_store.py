"""Norms, rotation and the store of K and V in one Triton kernel; copies of pages."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from radixchat.kernels import reference
from radixchat.kernels import triton_kv_store as ours
from radixchat.kernels.kv_pages import KVLayer, KVPages, empty_pages
from radixchat.kernels.layers import LayerShape

# As in test_triton_elementwise.py; the last is also the relative error of what follows a norm.
ROUNDING = {torch.float32: 1e-6, torch.float16: 2**-9, torch.bfloat16: 2**-5}
PAGES, PAGE_SIZE = 5, 4


def randn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def by_position(kv_heads: int, dim: int, dtype: torch.dtype) -> KVLayer:
    """Pages as they lie on a GPU, full of what nobody may read."""
    poison = 99 if dtype == torch.int8 else torch.nan
    shape = (PAGES, kv_heads, PAGE_SIZE, dim)
    scales = [
        torch.full(shape[:3], torch.nan, dtype=torch.float16) if dtype == torch.int8 else None
        for _ in range(2)
    ]
    return KVLayer(*(torch.full(shape, poison, dtype=dtype) for _ in range(2)), *scales)


@dataclass(frozen=True, slots=True)
class Case:
    """One layer's rows: some of them padding, in slots of no order."""

    shape: LayerShape
    qkv: Tensor
    rotation: tuple[Tensor, Tensor] | None
    norms: tuple[Tensor, Tensor] | None
    slots: Tensor

    def expected(self, kv: KVLayer) -> Tensor:
        """The reference, operation by operation; it stores into kv."""
        heads, kv_heads = self.shape.num_heads, self.shape.num_kv_heads
        by_head = self.qkv.view(len(self.qkv), heads + 2 * kv_heads, self.shape.head_dim)
        query, key = by_head[:, :heads], by_head[:, heads : heads + kv_heads]
        value = by_head[:, heads + kv_heads :]
        if self.norms is not None:
            query = reference.rms_norm(query, self.norms[0], self.shape.rms_eps)
            key = reference.rms_norm(key, self.norms[1], self.shape.rms_eps)
        if self.rotation is not None:
            query = reference.rotate(query, *self.rotation)
            key = reference.rotate(key, *self.rotation)
        reference.store_kv(key, value, kv, self.slots)
        return query

    def found(self, kv: KVLayer) -> Tensor:
        """The kernel."""
        return ours.rotate_store(self.qkv, self.rotation, self.norms, kv, self.slots, self.shape)


def case(
    heads: int,
    kv_heads: int,
    dim: int,
    rows: int = 5,
    dtype: torch.dtype = torch.float32,
    rotates: bool = True,
    norms: bool = False,
) -> Case:
    angles = randn(rows, dim // 2, seed=1) * 100
    slots = torch.randperm(PAGES * PAGE_SIZE, generator=torch.Generator().manual_seed(2))[:rows]
    slots[1::3] = -1
    return Case(
        LayerShape(heads, kv_heads, dim, 1e-5),
        randn(rows, (heads + 2 * kv_heads) * dim, dtype=dtype),
        (angles.cos().to(dtype), angles.sin().to(dtype)) if rotates else None,
        (randn(dim, dtype=dtype, seed=3), randn(dim, dtype=dtype, seed=4)) if norms else None,
        slots,
    )


def equal(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    """Equal but for rounding; what nobody wrote is equally poisoned."""
    assert found.dtype == expected.dtype
    bound = ROUNDING[dtype]
    torch.testing.assert_close(found, expected, rtol=bound, atol=bound, equal_nan=True)


@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("rotates", [False, True])
@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(9, 3, 64), (1, 1, 16), (4, 2, 48)])
def test_queries_and_stored_kv_are_the_references(
    heads: int, kv_heads: int, dim: int, dtype: torch.dtype, rotates: bool, norms: bool
) -> None:
    """Any heads, with and without norms and rotation; a slot of -1 is written nowhere."""
    one = case(heads, kv_heads, dim, dtype=dtype, rotates=rotates, norms=norms)
    kv, expected_kv = (by_position(kv_heads, dim, dtype) for _ in range(2))
    equal(one.found(kv), one.expected(expected_kv), dtype)
    equal(kv.k, expected_kv.k, dtype)
    equal(kv.v, expected_kv.v, dtype)
    assert torch.equal(kv.v.nan_to_num(), expected_kv.v.nan_to_num()), "values are moved as is"
    assert int(kv.k.isfinite().sum()) == int((one.slots >= 0).sum()) * kv_heads * dim


@pytest.mark.parametrize("dim", [16, 64])
def test_keys_may_lie_dimension_by_dimension(dim: int) -> None:
    """The layout of keys on the CPU is served as well."""
    one = case(4, 2, dim)
    kv, expected_kv = (
        empty_pages(1, PAGES, 2, PAGE_SIZE, dim, torch.float32, "cpu").layer(0) for _ in range(2)
    )
    equal(one.found(kv), one.expected(expected_kv), torch.float32)
    equal(kv.k, expected_kv.k, torch.float32)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("dim", [16, 48, 64])
def test_int8_codes_and_scales_are_the_references_to_the_bit(dim: int, dtype: torch.dtype) -> None:
    """Without arithmetic before it, quantisation gives the reference's bits; -1 nothing."""
    one = case(4, 2, dim, rows=20, dtype=dtype, rotates=False)
    one.qkv[3] *= 1e-6
    one.qkv[5] *= 1e4
    one.qkv[6] = 0
    kv, expected_kv = (by_position(2, dim, torch.int8) for _ in range(2))
    assert torch.equal(one.found(kv), one.expected(expected_kv))
    assert torch.equal(kv.k, expected_kv.k)
    assert torch.equal(kv.v, expected_kv.v)
    for scales, expected in ((kv.k_scale, expected_kv.k_scale), (kv.v_scale, expected_kv.v_scale)):
        assert scales is not None
        assert expected is not None
        assert torch.equal(scales.view(torch.int16), expected.view(torch.int16))


def test_ties_are_rounded_to_even() -> None:
    """Codes that lie half way go to the even neighbour, as torch rounds them."""
    one = case(1, 1, 16, rows=1, rotates=False)
    one.slots[0] = 0
    one.qkv[0] = 0
    one.qkv[0, 16:20] = torch.tensor([127.0, 0.5, 1.5, -2.5])
    kv = by_position(1, 16, torch.int8)
    one.found(kv)
    assert kv.k[0, 0, 0, :4].tolist() == [127, 0, 2, -2]


def test_nan_is_not_hidden_by_int8() -> None:
    """A head with a NaN in it has a scale of NaN, and the others have not."""
    one = case(2, 2, 16, rows=1, rotates=False)
    one.slots[0] = 0
    one.qkv[0, 2 * 16 + 3] = torch.nan
    kv = by_position(2, 16, torch.int8)
    one.found(kv)
    assert kv.k_scale is not None
    assert kv.v_scale is not None
    assert kv.k_scale[0, :, 0].isnan().tolist() == [True, False]
    assert kv.v_scale[0, :, 0].isfinite().all()


def test_a_rows_bits_do_not_depend_on_the_others() -> None:
    """A row alone gives the same query, K and V."""
    one = case(9, 3, 64, rows=7, norms=True)
    kv = by_position(3, 64, torch.float32)
    together = one.found(kv)
    assert one.rotation is not None
    for row in range(7):
        alone = slice(row, row + 1)
        cos, sin = one.rotation
        again = by_position(3, 64, torch.float32)
        single = Case(
            one.shape, one.qkv[alone], (cos[alone], sin[alone]), one.norms, one.slots[alone]
        )
        assert torch.equal(single.found(again), together[alone])
        written = again.k.isfinite()
        assert torch.equal(again.k[written], kv.k[written])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_copied_slots_are_those_of_the_plain_copy(dtype: torch.dtype) -> None:
    """Several copies of several lengths, over all layers, heads and parts; nothing else changes."""
    pages, expected = (empty_pages(3, 6, 2, 20, 24, dtype, "cpu") for _ in range(2))
    for part in pages.parts():
        part.copy_(randn(*part.shape) * 100)
    for part, same in zip(pages.parts(), expected.parts(), strict=True):
        same.copy_(part)
    copies = [(0, 3, 20), (1, 4, 7), (0, 5, 1), (2, 1, 0)]
    ours.copy_slots(pages, copies)
    expected.copy_slots(copies)
    for part, same in zip(pages.parts(), expected.parts(), strict=True):
        assert torch.equal(part, same)
    assert not torch.equal(pages.v[:, 4], pages.v[:, 1])


def test_no_copies_and_no_rows_are_no_launch() -> None:
    """A step without either does nothing."""
    pages = KVPages(randn(1, 2, 1, 4, 16), randn(1, 2, 1, 4, 16), None, None)
    before = pages.k.clone()
    ours.copy_slots(pages, [])
    one = case(2, 1, 16, rows=0)
    assert one.found(pages.layer(0)).shape == (0, 2, 16)
    assert torch.equal(pages.k, before)
