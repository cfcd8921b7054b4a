"""Norms and SwiGLU of rows: right, each row by itself, in place too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from radixchat.kernels import reference
from radixchat.kernels.cpu_elementwise import rms_norm_rows, swiglu_rows


def norm(x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """The norm of all rows, written to out."""
    rms_norm_rows(
        x.data_ptr(), 4 * x.stride(0), weight.data_ptr(), 1e-5, out.data_ptr(), 4 * out.stride(0),
        x.shape[0], x.shape[1],
    )  # fmt: skip
    return out


def swiglu(gate_up: Tensor, out: Tensor) -> Tensor:
    """silu(gate) * up of all rows, written to out."""
    swiglu_rows(
        gate_up.data_ptr(), 4 * gate_up.stride(0), out.data_ptr(), 4 * out.stride(0),
        gate_up.shape[0], gate_up.shape[1] // 2,
    )  # fmt: skip
    return out


@pytest.mark.parametrize("size", [16, 100, 576])
def test_the_norm_is_the_references(size: int) -> None:
    """Within fp32 rounding, for sizes that fill vectors and for some that do not."""
    x, weight = torch.randn(7, size) * 3, torch.randn(size)
    got = norm(x, weight, torch.empty_like(x))
    expected = reference.rms_norm(x.double(), weight.double(), 1e-5)
    torch.testing.assert_close(got, expected.float(), rtol=1e-6, atol=1e-6)
    alone = torch.cat([norm(row[None], weight, torch.empty(1, size)) for row in x])
    assert torch.equal(got, alone)
    assert torch.equal(norm(x, weight, x), got)


def test_swiglu_is_the_references() -> None:
    """Also where the exponential would overflow, and a NaN is not lost."""
    gate_up = torch.randn(5, 192) * 4
    gate_up[0, :6] = torch.tensor([-200.0, -88, 0, 88, 200, torch.nan])
    got = swiglu(gate_up, torch.empty(5, 96))
    expected = reference.swiglu(gate_up.double()).float()
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6, equal_nan=True)
    alone = torch.cat([swiglu(row[None], torch.empty(1, 96)) for row in gate_up])
    assert torch.equal(got.nan_to_num(7.0), alone.nan_to_num(7.0))
    in_place = swiglu(gate_up, gate_up)[:, :96]
    assert torch.equal(got.nan_to_num(7.0), in_place.nan_to_num(7.0))
