"""Norms, rotary and the KV store on the CPU, against the plain operations; to the bit but norms."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from radixchat.kernels import reference
from radixchat.kernels.cpu_kv import describe_kv
from radixchat.kernels.cpu_rotary import rotate_store
from radixchat.kernels.kv_pages import KVLayer, empty_pages

HEADS, KV_HEADS, EPS = 6, 2, 1e-5
DTYPES = [torch.float32, torch.int8]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a step, before anything is done to them."""

    qkv: Tensor
    cos: Tensor
    sin: Tensor
    slots: Tensor
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None

    def expect(self, kv: KVLayer, rotates: bool = True) -> Tensor:
        """The queries by the plain operations, K and V stored."""
        query, key = self.qkv[:, :HEADS], self.qkv[:, HEADS : HEADS + KV_HEADS]
        if self.q_norm is not None and self.k_norm is not None:
            query = reference.rms_norm(query, self.q_norm, EPS)
            key = reference.rms_norm(key, self.k_norm, EPS)
        if rotates:
            query = reference.rotate(query, self.cos, self.sin)
            key = reference.rotate(key, self.cos, self.sin)
        reference.store_kv(key, self.qkv[:, HEADS + KV_HEADS :], kv, self.slots)
        return query

    def run(self, kv: KVLayer, rotates: bool = True, shares: tuple[int, ...] = ()) -> Tensor:
        """The same by the kernel, the rows shared out at the given numbers."""
        qkv, fields = self.qkv.clone(), describe_kv(kv)
        bounds = [0, *shares, len(qkv)]
        for first, end in itertools.pairwise(bounds):
            rotate_store(
                qkv.data_ptr(),
                qkv.stride(0) * qkv.itemsize,
                first,
                end,
                self.cos.data_ptr() if rotates else 0,
                self.sin.data_ptr() if rotates else 0,
                0 if self.q_norm is None else self.q_norm.data_ptr(),
                0 if self.k_norm is None else self.k_norm.data_ptr(),
                EPS,
                HEADS,
                fields,
                self.slots.numpy(),
            )
        return qkv[:, :HEADS]


def rows_of(dim: int, page_size: int, count: int = 9) -> Rows:
    """Random rows for random slots of 12 pages; one of them is stored nowhere."""
    generator = torch.Generator().manual_seed(0)
    slots = torch.randperm(12 * page_size, generator=generator)[:count]
    slots[4] = -1
    return Rows(
        3 * torch.randn(count, HEADS + 2 * KV_HEADS, dim, generator=generator),
        torch.randn(count, dim // 2, generator=generator),
        torch.randn(count, dim // 2, generator=generator),
        slots,
    )


def pool(dim: int, page_size: int, dtype: torch.dtype) -> KVLayer:
    """12 empty pages."""
    return empty_pages(1, 12, KV_HEADS, page_size, dim, dtype, "cpu").layer(0)


def parts(kv: KVLayer) -> list[Tensor]:
    """The tensors there are."""
    return [part for part in (kv.k, kv.v, kv.k_scale, kv.v_scale) if part is not None]


@pytest.mark.parametrize("dtype", DTYPES, ids=["fp32", "int8"])
@pytest.mark.parametrize("page_size", [1, 8, 16, 32])
@pytest.mark.parametrize("dim", [16, 48, 64, 80, 128])
def test_rotation_and_store_are_the_plain_operations_to_the_bit(
    dim: int, page_size: int, dtype: torch.dtype
) -> None:
    """Queries, K, V and, for int8, codes and scales; with and without a rotation."""
    rows = rows_of(dim, page_size)
    for rotates in (True, False):
        expected, found = pool(dim, page_size, dtype), pool(dim, page_size, dtype)
        query = rows.expect(expected, rotates)
        assert torch.equal(rows.run(found, rotates), query)
        for one, other in zip(parts(found), parts(expected), strict=True):
            assert torch.equal(one, other)
            assert one.any()


@pytest.mark.parametrize("dim", [16, 48, 128])
def test_head_norms_come_before_the_rotation(dim: int) -> None:
    """As Qwen3 has them: queries and keys each by their own weight."""
    generator = torch.Generator().manual_seed(1)
    norms = [torch.randn(dim, generator=generator) for _ in range(2)]
    plain = rows_of(dim, 16)
    rows = Rows(plain.qkv, plain.cos, plain.sin, plain.slots, *norms)
    expected, found = pool(dim, 16, torch.float32), pool(dim, 16, torch.float32)
    torch.testing.assert_close(rows.run(found), rows.expect(expected), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.k, expected.k, atol=1e-5, rtol=1e-5)
    assert torch.equal(found.v, expected.v)


@pytest.mark.parametrize("dtype", DTYPES, ids=["fp32", "int8"])
def test_rows_do_not_depend_on_how_they_are_shared_out(dtype: torch.dtype) -> None:
    """One call, two, or one for each row."""
    plain = rows_of(64, 16)
    rows = Rows(plain.qkv, plain.cos, plain.sin, plain.slots, torch.ones(64), torch.ones(64))
    whole = pool(64, 16, dtype)
    query = rows.run(whole)
    for shares in ((5,), tuple(range(1, 9))):
        found = pool(64, 16, dtype)
        assert torch.equal(rows.run(found, shares=shares), query)
        assert all(map(torch.equal, parts(found), parts(whole)))


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-5, 1e4, 3e38])
def test_codes_of_very_small_and_very_large_numbers_are_the_plain_ones(size: float) -> None:
    """The scale stays a normal fp16 number, the codes in -127..127."""
    plain = rows_of(64, 16)
    rows = Rows(plain.qkv.clamp(-1, 1) * size, plain.cos, plain.sin, plain.slots)
    expected, found = pool(64, 16, torch.int8), pool(64, 16, torch.int8)
    rows.expect(expected, rotates=False)
    rows.run(found, rotates=False)
    for one, other in zip(parts(found), parts(expected), strict=True):
        assert torch.equal(one, other)


def test_ties_go_to_the_even_code() -> None:
    """127 / 127 is a scale of 1, so that halves are ties."""
    plain = rows_of(16, 16, count=5)
    qkv = torch.zeros_like(plain.qkv)
    qkv[..., :6] = torch.tensor([127.0, 0.5, 1.5, 2.5, -0.5, -1.5])
    kv = pool(16, 16, torch.int8)
    Rows(qkv, plain.cos, plain.sin, plain.slots).run(kv, rotates=False)
    slot = int(plain.slots[0])
    assert kv.v[slot // 16, 0, slot % 16, :6].tolist() == [127, 0, 2, 2, 0, -2]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_no_number_is_not_lost_in_the_codes(bad: float) -> None:
    """NaN becomes a scale of NaN for its token and head alone; infinity the largest scale."""
    plain = rows_of(64, 16)
    qkv = plain.qkv.clone()
    qkv[2, HEADS + KV_HEADS, 5] = bad
    kv = pool(64, 16, torch.int8)
    Rows(qkv, plain.cos, plain.sin, plain.slots).run(kv)
    slot = int(plain.slots[2])
    assert kv.v_scale is not None
    scale = kv.v_scale[slot // 16, 0, slot % 16]
    assert scale.isnan() if bad != torch.inf else scale == torch.finfo(torch.float16).max
    assert kv.v_scale.isnan().sum() == int(bad != torch.inf)
