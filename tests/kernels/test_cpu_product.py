"""Products with packed weights: exact whatever is computed with a row, and right."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from radixchat.kernels.cpu_pack import join, pack_blocks, pack_fp32, pack_int8, unpack
from radixchat.kernels.cpu_product import SCRATCH_BYTES, product, share, split_rows
from radixchat.kernels.packed_matrix import PackedMatrix

FORMATS = ["fp32", "int8", "Q4_0", "Q4_1", "Q5_1", "Q6_K", "Q4_K", "Q5_K"]
BLOCKS = {"Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_1": (32, 24), "Q6_K": (256, 210)}
BLOCKS |= {"Q4_K": (256, 144), "Q5_K": (256, 176)}
# fp16 numbers of a block: bytes 2 i and 2 i + 1; the rest are codes and small integers.
HALVES = {
    "Q4_0": [0],
    "Q4_1": [0, 1],
    "Q5_1": [0, 1],
    "Q6_K": [104],
    "Q4_K": [0, 1],
    "Q5_K": [0, 1],
}


def packed(form: str, out_features: int, in_features: int, seed: int = 0) -> PackedMatrix:
    """A matrix of random finite weights."""
    random = np.random.default_rng(seed)
    if form in ("fp32", "int8"):
        weight = torch.from_numpy(random.standard_normal((out_features, in_features)))
        return pack_fp32(weight) if form == "fp32" else pack_int8(weight)
    weights, num_bytes = BLOCKS[form]
    shape = (out_features, in_features // weights)
    source = random.integers(0, 256, (*shape, num_bytes), dtype=np.uint8)
    for place in HALVES[form]:
        scale = (random.standard_normal(shape) * 0.02).astype(np.float16)
        source[..., 2 * place : 2 * place + 2] = scale[..., None].view(np.uint8)
    return pack_blocks(form, torch.from_numpy(source))


def chain(x: Tensor, matrix: PackedMatrix) -> Tensor:
    """The sums by their definition, one addition after another: fp32 [rows, out].

    A product of two fp32 numbers is exact in fp64 and its sum with a third nearly so; rounding
    that to fp32 is what a fused multiply-add gives but for ties, which random numbers avoid.
    """
    weights = unpack(matrix).double()
    sums = torch.zeros(x.shape[0], matrix.out_features)
    for k in range(matrix.in_features):
        sums = (sums.double() + x[:, k : k + 1].double() * weights[:, k]).float()
    return sums


def shares(x: Tensor, matrix: PackedMatrix, num_parts: int, out: Tensor, add: bool = False) -> None:
    """All parts of a product, one after the other, with a scratch buffer of garbage."""
    scratch = torch.full((SCRATCH_BYTES // 4,), torch.nan)
    for part in range(num_parts):
        share(
            x.data_ptr(), 4 * x.stride(0), x.shape[0], matrix.describe(),
            out.data_ptr(), 4 * out.stride(0), part, num_parts, scratch.data_ptr(), int(add),
        )  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("shape", [(5, 512), (96, 512), (230, 768)])
def test_a_row_has_the_same_bits_in_any_number_of_rows(form: str, shape: tuple[int, int]) -> None:
    """1 to 70 of them: every height of a tile, codes read in registers and from scratch."""
    matrix = packed(form, *shape)
    x = torch.randn(70, shape[1], generator=torch.Generator().manual_seed(3))
    whole = product(x, matrix)
    alone = torch.cat([product(row[None], matrix) for row in x])
    assert torch.equal(whole, alone)
    for rows in (*range(2, 20), 36, 69):
        assert torch.equal(product(x[-rows:], matrix), whole[-rows:]), rows


@pytest.mark.parametrize("form", FORMATS)
def test_a_sum_is_one_chain_of_fused_multiply_adds_in_order(form: str) -> None:
    """The definition, to the bit: what any other kernel or machine must give too."""
    matrix = packed(form, 40, 1280)
    x = torch.randn(9, 1280, generator=torch.Generator().manual_seed(4))
    expected = chain(x, matrix)
    assert torch.equal(product(x, matrix), expected)
    assert torch.equal(product(x[:1], matrix), expected[:1])


@pytest.mark.parametrize("form", FORMATS)
def test_products_agree_with_fp64(form: str) -> None:
    """Within fp32's rounding of a sum of this length."""
    matrix = packed(form, 70, 768)
    x = torch.randn(13, 768)
    weights = unpack(matrix).double()
    error = (product(x, matrix) - x.double() @ weights.T).abs()
    assert (error <= 2e-6 * (x.double().abs() @ weights.abs().T)).all()


@pytest.mark.parametrize("form", ["fp32", "int8", "Q4_1"])
@pytest.mark.parametrize("rows", [1, 3, 8, 50, 300])
@pytest.mark.parametrize("num_parts", [2, 3, 4, 6, 64])
def test_shares_make_up_the_whole(form: str, rows: int, num_parts: int) -> None:
    """Whatever the number of parts: each output written once, nothing beside them."""
    matrix = packed(form, 130, 64)
    x = torch.randn(rows, 64)
    expected = product(x, matrix)
    out = torch.full((rows, 140), torch.nan)
    shares(x, matrix, num_parts, out)
    assert torch.equal(out[:, :130], expected)
    assert out[:, 130:].isnan().all()


@pytest.mark.parametrize("form", ["fp32", "int8", "Q4_0"])
@pytest.mark.parametrize("rows", [1, 5, 20])
def test_the_finished_sum_is_added_to_what_is_there(form: str, rows: int) -> None:
    """A residual is added last, in one rounding: the same bits as adding it afterwards."""
    matrix = packed(form, 75, 1152)
    x, residual = torch.randn(rows, 1152), torch.randn(rows, 75)
    out = residual.clone()
    shares(x, matrix, 2, out, add=True)
    assert torch.equal(out, residual + product(x, matrix))


def test_strided_rows_and_views_are_read_where_they_lie() -> None:
    """A part of a wider row, as a layer's buffers have it; half precision is widened."""
    matrix = packed("Q4_1", 64, 96)
    wide = torch.randn(7, 200)
    x = wide[:, 50:146]
    expected = product(x.contiguous(), matrix)
    assert torch.equal(product(x, matrix), expected)
    assert torch.equal(product(x.T.contiguous().T, matrix), expected)
    assert torch.equal(product(x.half(), matrix), product(x.half().float(), matrix))


@pytest.mark.parametrize("form", ["fp32", "int8", "Q4_1"])
def test_nan_and_infinity_reach_every_output_of_their_row_and_no_other(form: str) -> None:
    """An error must not be hidden, nor spread to another request."""
    matrix = packed(form, 40, 512)
    x = torch.randn(12, 512)
    expected = product(x, matrix)
    x[4, 100], x[7, 3] = torch.nan, torch.inf
    got = product(x, matrix)
    assert got[4].isnan().all()
    assert not got[7].isfinite().any()
    others = [row for row in range(12) if row not in (4, 7)]
    assert torch.equal(got[others], expected[others])


def test_joined_matrices_give_what_each_gives() -> None:
    """Queries, keys and values in one product, also of mixed formats."""
    parts = [packed("Q4_1", 96, 512), packed("Q6_K", 33, 512), packed("Q4_0", 31, 512)]
    x = torch.randn(6, 512)
    apart = torch.cat([product(x, part) for part in parts], dim=1)
    assert torch.equal(product(x, join(parts)), apart)
    same = [packed("Q4_1", 33, 512), packed("Q4_1", 64, 512, seed=1)]
    apart = torch.cat([product(x, part) for part in same], dim=1)
    assert torch.equal(product(x, join(same)), apart)


def test_no_rows_and_wrong_rows() -> None:
    """An empty step gives an empty result; a shape that does not match is named."""
    matrix = packed("fp32", 8, 32)
    assert product(torch.empty(0, 32), matrix).shape == (0, 8)
    with pytest.raises(ValueError, match="2, 31"):
        product(torch.ones(2, 31), matrix)


def test_work_is_split_where_the_parts_are_even() -> None:
    """By panels of outputs if they share out evenly, by rows if not; one row never by rows."""
    assert split_rows(512, 18, 2) == 1
    assert split_rows(512, 9, 2) == 2
    assert split_rows(1, 1, 8) == 1
    assert split_rows(512, 18, 16) > 1
    for rows, num_panels, num_parts in [(512, 18, 12), (7, 5, 6), (2048, 30, 7)]:
        assert num_parts % split_rows(rows, num_panels, num_parts) == 0


AVX2 = "+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+cmov,+cx16,+lzcnt,+popcnt,+sse4.1,+sse4.2,+ssse3"
SAVE_PRODUCTS = """
import sys, torch
from radixchat.tests.kernels.test_cpu_product import products_of_a_seed
torch.save(products_of_a_seed(), sys.argv[1])
"""


def products_of_a_seed() -> list[Tensor]:
    """Products of every kind of tile, always with the same numbers."""
    generator = torch.Generator().manual_seed(9)
    x = torch.randn(21, 512, generator=generator)
    matrices = [packed(form, 100, 512) for form in ("fp32", "int8", "Q4_0", "Q4_1", "Q6_K")]
    return [product(x[:rows], matrix) for matrix in matrices for rows in (1, 2, 7, 21)]


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="AVX2 is of x86")
def test_narrower_registers_give_the_same_bits(tmp_path: Path) -> None:
    """Compiled for AVX2, whose tiles have other sizes, a product is what it is here."""
    environment = os.environ | {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": AVX2,
        "XDG_CACHE_HOME": str(tmp_path),
    }
    saved = tmp_path / "products.pt"
    subprocess.run(
        [sys.executable, "-c", SAVE_PRODUCTS, str(saved)], env=environment, check=True, timeout=240
    )
    narrow = torch.load(saved)
    here = products_of_a_seed()
    assert len(narrow) == len(here) == 20
    assert all(torch.equal(left, right) for left, right in zip(narrow, here, strict=True))
