"""Arithmetic: what a machine without a GPU makes of what was asked."""

from __future__ import annotations

import pytest
import torch

from radixchat.engine.arithmetic import resolve_arithmetic
from radixchat.engine.errors import ConfigError


def test_on_the_cpu_all_is_fp32_but_what_is_asked_to_be_int8() -> None:
    """Weights are what was asked, KV int8 or the dtype of the activations."""
    plain = resolve_arithmetic("cpu", "auto", "auto", None)
    assert (plain.dtype, plain.weights, plain.kv, plain.exact) == (
        torch.float32,
        "auto",
        "fp32",
        True,
    )
    assert (plain.kv_element_bytes, plain.kv_scale_bytes) == (4, 0)
    small = resolve_arithmetic("cpu", "int8", "int8", exact=False)
    assert (small.weights, small.kv, small.exact) == ("int8", "int8", False)
    assert (small.kv_element_bytes, small.kv_scale_bytes) == (1, 2)


def test_torch_s_products_get_plain_weights() -> None:
    """They are what computes without exactness; int8 that was asked for stays int8."""
    assert resolve_arithmetic("cpu", "auto", "auto", exact=False).weights == "fp32"
    assert resolve_arithmetic("cpu", "int8", "auto", exact=False).weights == "int8"


def test_int8_weights_keep_an_open_choice_of_device_on_the_cpu() -> None:
    """Only the CPU computes with them; a GPU that was asked for by name is refused."""
    assert resolve_arithmetic("auto", "int8", "auto", None).device == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    """With the setting and what would do; auto means the CPU then."""
    with pytest.raises(ConfigError, match="device is 'cuda', but torch finds no GPU; use 'auto'"):
        resolve_arithmetic("cuda", "auto", "auto", None)
    assert resolve_arithmetic("auto", "auto", "auto", None).device == "cpu"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_computes_with_half_the_bits_unless_told_otherwise() -> None:
    """KV has the dtype of the weights; exactness is an option there."""
    chosen = resolve_arithmetic("auto", "auto", "auto", None)
    assert (chosen.device, chosen.dtype.itemsize, chosen.exact) == ("cuda", 2, False)
    full = resolve_arithmetic("cuda", "fp32", "auto", exact=True)
    assert (full.dtype, full.kv, full.exact) == (torch.float32, "fp32", True)
    with pytest.raises(ConfigError, match="weights is 'int8'"):
        resolve_arithmetic("cuda", "int8", "auto", None)
