"""Packed weights: to the bit what dequantising gives, from every format and joined."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, quants
from torch import Tensor

from radixchat.engine.block_formats import SUPPORTED_KINDS, block_sizes, dequantize
from radixchat.kernels import cpu_panels as panels
from radixchat.kernels.cpu_pack import join, pack_blocks, pack_fp32, pack_int8, take_rows, unpack
from radixchat.kernels.packed_matrix import PackedMatrix

QUANTISED = [kind for kind in SUPPORTED_KINDS if kind.startswith("Q")]
BITS = {"Q4_0": 4.5, "Q4_1": 5, "Q8_0": 8.5, "Q5_0": 8.5, "Q5_1": 9, "Q4_K": 6, "Q6_K": 10}


def blocks(kind: str, out_features: int, in_features: int, seed: int = 0) -> Tensor:
    """Random bytes: every code and sign, and scales that may be infinite or NaN."""
    weights, num_bytes = block_sizes(kind)
    random = np.random.default_rng(seed)
    shape = (out_features, in_features // weights, num_bytes)
    return torch.from_numpy(random.integers(0, 256, shape, dtype=np.uint8))


def dense(kind: str, source: Tensor) -> Tensor:
    """The weights by the engine's own dequantiser, [out, in]."""
    weights, num_bytes = block_sizes(kind)
    out = torch.empty(source.shape[0] * source.shape[1], weights)
    dequantize(kind, source.view(-1, num_bytes), out)
    return out.view(source.shape[0], -1)


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Equal to the bit, signs of zeros too; a NaN need only be a NaN."""
    numbers = ~right.isnan()
    equal = torch.equal(left.view(torch.int32)[numbers], right.view(torch.int32)[numbers])
    return equal and torch.equal(left.isnan(), ~numbers)


@pytest.mark.parametrize("kind", SUPPORTED_KINDS)
@pytest.mark.parametrize("out_features", [1, 5, 32, 77])
def test_packed_blocks_are_the_dequantised_weights(kind: str, out_features: int) -> None:
    """Bit for bit, for outputs that fill a panel and for some that do not."""
    source = blocks(kind, out_features, 512)
    matrix = pack_blocks(kind, source)
    assert matrix.shape == (out_features, 512)
    assert same_bits(unpack(matrix), dense(kind, source))


@pytest.mark.parametrize(("kind", "bits"), BITS.items())
def test_packed_blocks_stay_as_small_as_their_format(kind: str, bits: float) -> None:
    """4-bit codes stay 4 bits; 5 and 6 bits become 8, and scales computed from two become fp32."""
    matrix = pack_blocks(kind, blocks(kind, 64, 512))
    assert matrix.num_bytes * 8 == bits * 64 * 512
    assert matrix.format == ("uint4" if "4" in kind else "int8")


def test_floats_are_kept_as_they_are() -> None:
    """Infinities and a negative zero too, from half precision and from a strided tensor."""
    weight = torch.randn(37, 50)
    weight[3, 4], weight[5, 6], weight[36, 49] = torch.inf, -0.0, torch.nan
    assert same_bits(unpack(pack_fp32(weight)), weight)
    half = weight.bfloat16()
    assert same_bits(unpack(pack_fp32(half)), half.float())
    assert same_bits(unpack(pack_fp32(weight.T)), weight.T.contiguous())


@pytest.mark.parametrize("in_features", [32, 576, 100])
def test_int8_follows_the_rule_of_q8_0(in_features: int) -> None:
    """The same weights as the gguf package's quantiser , and half a step away at most."""
    weight = torch.randn(35, in_features, generator=torch.Generator().manual_seed(1))
    weight[3] = 0
    matrix = pack_int8(weight)
    steps = weight.abs().amax(1, keepdim=True) / 127
    # Half a step, and what rounding the scale to fp16 moves a code of 127.
    assert ((unpack(matrix) - weight).abs() <= (0.5 + 127 * 2**-11) * steps).all()
    if in_features % 32 == 0:
        expected = quants.quantize(weight.numpy(), GGMLQuantizationType.Q8_0)
        source = torch.from_numpy(expected).view(35, -1, 34)
        assert same_bits(unpack(matrix), dense("Q8_0", source))


def test_int8_refuses_what_it_cannot_hold() -> None:
    """A scale above fp16's largest number, a NaN, or inputs that its loops do not divide."""
    weight = torch.ones(2, 32)
    for wrong in (1e7, torch.inf, torch.nan):
        weight[1, 3] = wrong
        with pytest.raises(ValueError, match="int8"):
            pack_int8(weight)
    with pytest.raises(ValueError, match="33"):
        pack_int8(torch.ones(2, 33))


@pytest.mark.parametrize("outs", [(64, 32, 32), (64, 30, 7), (5, 1, 40)])
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0", "Q6_K", "F32"])
def test_joined_matrices_of_one_format_keep_it(kind: str, outs: tuple[int, ...]) -> None:
    """One after another, whether or not a panel ends between them."""
    sources = [blocks(kind, out, 512, seed) for seed, out in enumerate(outs)]
    whole = join([pack_blocks(kind, source) for source in sources])
    assert whole.format == pack_blocks(kind, sources[0]).format
    assert same_bits(unpack(whole), torch.cat([dense(kind, source) for source in sources]))
    alone = pack_blocks(kind, torch.cat(sources))
    assert torch.equal(whole.codes.view(torch.uint8), alone.codes.view(torch.uint8))


@pytest.mark.parametrize("kinds", [("Q4_1", "Q6_K"), ("Q4_0", "Q8_0", "Q4_K"), ("Q8_0", "F16")])
def test_joined_matrices_of_several_formats_lose_nothing(kinds: tuple[str, ...]) -> None:
    """Not even the sign of a zero."""
    sources = [blocks(kind, 33, 512, seed) for seed, kind in enumerate(kinds)]
    packed = [pack_blocks(kind, source) for kind, source in zip(kinds, sources, strict=True)]
    expected = [dense(kind, source) for kind, source in zip(kinds, sources, strict=True)]
    assert same_bits(unpack(join(packed)), torch.cat(expected))


def test_matrices_that_cannot_follow_one_another_are_refused() -> None:
    """None at all, or of different inputs."""
    with pytest.raises(ValueError, match="join"):
        join([])
    with pytest.raises(ValueError, match="64"):
        join([pack_fp32(torch.ones(2, 32)), pack_fp32(torch.ones(2, 64))])


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "F32"])
def test_rows_are_looked_up_to_the_bit(kind: str) -> None:
    """In any order, twice, the last one; more inputs than a block of the look-up."""
    source = blocks(kind, 70, 1056)
    matrix, weights = pack_blocks(kind, source), dense(kind, source)
    ids = torch.tensor([69, 0, 31, 32, 31])
    assert same_bits(take_rows(matrix, ids), weights[ids])
    assert take_rows(matrix, ids[:0]).shape == (0, 1056)
    for wrong in (-1, 70):
        with pytest.raises(IndexError, match=str(wrong)):
            take_rows(matrix, torch.tensor([3, wrong]))


def test_wrong_weights_are_refused() -> None:
    """An unknown format by its name, and what is no matrix by its shape."""
    with pytest.raises(ValueError, match="IQ2_XS"):
        pack_blocks("IQ2_XS", torch.zeros(1, 1, 74, dtype=torch.uint8))
    with pytest.raises(ValueError, match="3, 0"):
        pack_fp32(torch.empty(3, 0))


def test_a_description_names_addresses_and_sizes() -> None:
    """The fields that compiled code reads."""
    matrix = pack_blocks("Q4_0", blocks("Q4_0", 70, 64))
    fields = matrix.describe()
    assert fields.shape == (panels.MATRIX_FIELDS,)
    assert fields[panels.FORMAT] == panels.INT4
    assert (fields[panels.OUT_FEATURES], fields[panels.IN_FEATURES]) == (70, 64)
    assert fields[panels.CODES] == matrix.codes.data_ptr()
    assert fields[panels.CODE_STRIDE] == 64 * 16
    assert (fields[panels.MINIMA], fields[panels.HALVES]) == (0, 1)
    assert isinstance(matrix, PackedMatrix)
