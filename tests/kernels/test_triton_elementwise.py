"""Norms and SwiGLU in Triton against the reference, in the interpreter."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from radixchat.kernels import reference
from radixchat.kernels import triton_elementwise as ours

EPS = 1e-5
# Relative. One rounding of the type: what a sum in another order may change. The interpreter cuts
# fp32 to bf16 where a GPU rounds (Triton 3.6, 3.9): each of three roundings is off by up to 2**-7.
ROUNDING = {torch.float32: 1e-6, torch.float16: 2**-10, torch.bfloat16: 3 * 2**-7}


def randn(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def equal(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == expected.dtype
    bound = ROUNDING[expected.dtype]
    torch.testing.assert_close(found, expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("shape", [(1, 1), (1, 576), (3, 64), (5, 96), (2, 1000)])
def test_rms_norm_is_the_references(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """A norm of any width, of rows that lie apart too, rounds where the reference rounds."""
    x = randn(shape[0], 2 * shape[1], dtype=dtype)[:, : shape[1]]
    weight = randn(shape[1], dtype=dtype, seed=1)
    equal(ours.rms_norm(x, weight, EPS), reference.rms_norm(x, weight, EPS))


def test_rms_norm_is_the_definition_in_fp64() -> None:
    """The fp32 norm is that of fp64 arithmetic to 1e-6."""
    x, weight = randn(4, 576, dtype=torch.float64), randn(576, dtype=torch.float64, seed=1)
    expected = x / (x.pow(2).mean(-1, keepdim=True) + EPS).sqrt() * weight
    found = ours.rms_norm(x.float(), weight.float(), EPS).double()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("shape", [(1, 576), (3, 100)])
def test_add_rms_norm_is_the_references(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """The sum comes back rounded, and the norm is that of the rounded sum."""
    x, residual = randn(*shape, dtype=dtype), randn(*shape, dtype=dtype, seed=1)
    weight = randn(shape[1], dtype=dtype, seed=2)
    normed, total = ours.add_rms_norm(x, residual, weight, EPS)
    expected, expected_total = reference.add_rms_norm(x, residual, weight, EPS)
    equal(total, expected_total)
    assert torch.equal(normed, ours.rms_norm(total, weight, EPS))
    equal(normed, expected)


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("shape", [(1, 2), (3, 2 * 1536), (2, 2 * 1025)])
def test_swiglu_is_the_references(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """A row of any width, over several programs too; the extremes of a gate give 0 and itself."""
    gate_up = randn(*shape, dtype=dtype) * 10
    equal(ours.swiglu(gate_up), reference.swiglu(gate_up))
    extreme = torch.tensor([[-300.0, 300.0, 2.0, 2.0]], dtype=dtype)
    assert ours.swiglu(extreme).tolist() == [[0.0, 600.0]]


@pytest.mark.parametrize("dtype", ROUNDING)
def test_a_rows_bits_do_not_depend_on_the_others(dtype: torch.dtype) -> None:
    """Rows computed alone and together are equal to the bit."""
    x, residual = randn(7, 200, dtype=dtype), randn(7, 200, dtype=dtype, seed=1)
    weight = randn(200, dtype=dtype, seed=2)
    normed, total = ours.add_rms_norm(x, residual, weight, EPS)
    single, gated = ours.rms_norm(x, weight, EPS), ours.swiglu(x)
    for row in range(7):
        alone = slice(row, row + 1)
        one, sum_of_one = ours.add_rms_norm(x[alone], residual[alone], weight, EPS)
        assert torch.equal(one, normed[alone])
        assert torch.equal(sum_of_one, total[alone])
        assert torch.equal(ours.rms_norm(x[alone], weight, EPS), single[alone])
        assert torch.equal(ours.swiglu(x[alone]), gated[alone])


def test_nan_and_infinity_come_through() -> None:
    """What is not finite stays in its row, and is not hidden there."""
    x = randn(3, 64, dtype=torch.float32)
    x[1, 5] = torch.nan
    weight = torch.ones(64)
    found = ours.rms_norm(x, weight, EPS)
    assert found[1].isnan().all()
    assert found[[0, 2]].isfinite().all()
    assert ours.swiglu(x)[1].isnan().sum() == 1


def test_no_rows_are_no_launch() -> None:
    """An empty step has empty results."""
    empty, weight = torch.empty(0, 64), torch.ones(64)
    assert ours.rms_norm(empty, weight, EPS).shape == (0, 64)
    assert ours.add_rms_norm(empty, empty, weight, EPS)[0].shape == (0, 64)
    assert ours.swiglu(empty).shape == (0, 32)
