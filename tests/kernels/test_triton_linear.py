"""The exact product in Triton: against fp64, and its property: a row does not see the others."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from radixchat.kernels.triton_linear import linear, linear_tile
from radixchat.tests.kernels.ordered_dot import order_dots

# The result's own rounding, and what fp32 sums of 300 numbers lose. The interpreter cuts to bf16.
BOUNDS = {torch.float32: 2e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}
TYPES = list(BOUNDS)


def randn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("rows", "in_features", "out_features"),
    [(1, 1, 1), (1, 128, 32), (3, 300, 33), (65, 129, 5), (64, 32, 70)],
)
def test_it_is_the_definition(
    rows: int, in_features: int, out_features: int, bias: bool, dtype: torch.dtype
) -> None:
    """Any sizes, with and without a bias, are right to the rounding of the result."""
    x, weight = randn(rows, in_features, dtype=dtype), randn(out_features, in_features, dtype=dtype)
    added = randn(out_features, dtype=dtype, seed=1) if bias else None
    expected = x.double() @ weight.double().T + (added.double() if added is not None else 0)
    size = (x.double().abs() @ weight.double().abs().T).max()
    found = linear(x, weight, added)
    assert found.dtype == dtype
    torch.testing.assert_close(
        found.double(), expected, rtol=BOUNDS[dtype], atol=float(size) * 1e-6
    )


def test_wide_outputs_take_their_tile_and_may_stay_fp32() -> None:
    """Logits of narrow types come out in fp32, without the rounding of the narrow type."""
    narrow = torch.bfloat16
    x, weight = randn(2, 16, dtype=narrow), randn(4099, 16, dtype=narrow, seed=1)
    assert linear_tile(4099, narrow) != linear_tile(960, narrow)
    found = linear(x, weight, dtype=torch.float32)
    assert found.dtype == torch.float32
    expected = x.double() @ weight.double().T
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_rows_bits_do_not_depend_on_the_number_of_rows(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, in odd company and at another place, a row's result is the same to the bit."""
    order_dots(monkeypatch)
    x, weight = randn(66, 200, dtype=dtype), randn(33, 200, dtype=dtype, seed=1)
    together = linear(x, weight)
    for rows in (1, 7, 63, 64, 65):
        assert torch.equal(linear(x[:rows], weight), together[:rows]), rows
    for row in (1, 31, 63, 64):
        assert torch.equal(linear(x[row : row + 1], weight), together[row : row + 1]), row


def test_rows_and_weights_may_be_parts_of_more() -> None:
    """Rows and matrices that are views with a stride of their own are read where they lie."""
    x, weight = randn(4, 96), randn(9, 160, seed=1)
    expected = linear(x[:, 32:64].contiguous(), weight[2:7, :32].contiguous())
    assert torch.equal(linear(x[:, 32:64], weight[2:7, :32]), expected)


def test_what_is_not_finite_stays_in_its_row() -> None:
    """A NaN makes its own row NaN and no other; what lies behind the inputs is not read."""
    x, weight = randn(3, 40), randn(5, 40, seed=1)
    x[1, 3] = torch.nan
    wide = torch.full((3, 64), torch.nan)
    wide[:, :40] = x
    found = linear(wide[:, :40], weight)
    assert found[1].isnan().all()
    assert found[[0, 2]].isfinite().all()


def test_no_rows_are_no_launch() -> None:
    """An empty step has an empty result."""
    assert linear(torch.empty(0, 8), torch.ones(3, 8)).shape == (0, 3)


def test_a_product_of_other_inputs_is_refused() -> None:
    """Sizes that do not meet are a bug of the caller."""
    with pytest.raises(AssertionError):
        linear(torch.ones(1, 8), torch.ones(3, 9))
