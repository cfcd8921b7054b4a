"""Block formats against the gguf package, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, quants

from radixchat.engine.block_formats import SUPPORTED_KINDS, block_sizes, dequantize


@pytest.mark.parametrize("kind", SUPPORTED_KINDS)
@pytest.mark.parametrize("count", [1, 2, 33, 500])
def test_every_block_unpacks_to_the_same_bits_as_in_the_gguf_package(kind: str, count: int) -> None:
    """Random bytes, so every code, sign and scale occurs; a NaN need only be a NaN."""
    weights, num_bytes = block_sizes(kind)
    random = np.random.default_rng(count)
    blocks = random.integers(0, 256, (count, num_bytes), dtype=np.uint8)
    out = torch.full((count, weights), 7.0)
    dequantize(kind, torch.from_numpy(blocks), out)
    with np.errstate(all="ignore"):
        expected = quants.dequantize(blocks, GGMLQuantizationType[kind]).reshape(count, weights)
    number = ~np.isnan(expected)
    assert np.array_equal(np.isnan(out.numpy()), ~number)
    assert np.array_equal(out.numpy().view(np.uint32)[number], expected.view(np.uint32)[number])
    assert number.mean() > 0.8


@pytest.mark.parametrize(
    ("kind", "error"),
    [("Q4_0", 0.2), ("Q4_1", 0.15), ("Q5_0", 0.1), ("Q5_1", 0.07), ("Q8_0", 0.01)],
)
def test_what_was_quantised_comes_back_within_the_formats_step(kind: str, error: float) -> None:
    """A check against the numbers themselves and not only against another unpacker."""
    numbers = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    blocks = quants.quantize(numbers, GGMLQuantizationType[kind])
    out = torch.empty(64, 32)
    dequantize(kind, torch.from_numpy(blocks), out)
    relative = np.abs(out.numpy() - numbers).max() / np.abs(numbers).max()
    assert 0 < relative < error
