"""The layers in Triton against the layers in torch, step by step over a conversation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from radixchat.kernels import reference
from radixchat.kernels.kv_pages import KVPages, empty_pages
from radixchat.kernels.layers import LayerShape, LayerWeights, TorchLayers
from radixchat.kernels.ops import pack_fp32
from radixchat.kernels.ragged import Ragged, ragged
from radixchat.kernels.triton_layers import TritonLayers
from radixchat.kernels.triton_linear import linear
from radixchat.tests.kernels.ordered_dot import order_dots

SHAPE = LayerShape(num_heads=4, num_kv_heads=2, head_dim=16, rms_eps=1e-5)
HIDDEN, INTERMEDIATE, PAGE_SIZE = 48, 80, 4


def randn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def layer(seed: int, *, rotates: bool, extras: bool) -> LayerWeights:
    """Random weights; extras: biases, and norms of queries and keys."""
    dim = SHAPE.head_dim
    outputs = (SHAPE.num_heads + 2 * SHAPE.num_kv_heads) * dim
    return LayerWeights(
        input_norm=1 + 0.1 * randn(HIDDEN, seed=seed),
        qkv=randn(outputs, HIDDEN, seed=seed + 1) / 7,
        out=randn(HIDDEN, SHAPE.num_heads * dim, seed=seed + 2) / 8,
        middle_norm=1 + 0.1 * randn(HIDDEN, seed=seed + 3),
        gate_up=randn(2 * INTERMEDIATE, HIDDEN, seed=seed + 4) / 7,
        down=randn(HIDDEN, INTERMEDIATE, seed=seed + 5) / 9,
        qkv_bias=randn(outputs, seed=seed + 6) if extras else None,
        out_bias=randn(HIDDEN, seed=seed + 7) if extras else None,
        q_norm=1 + 0.1 * randn(dim, seed=seed + 8) if extras else None,
        k_norm=1 + 0.1 * randn(dim, seed=seed + 9) if extras else None,
        rotates=rotates,
    )


def stacks(extras: bool) -> tuple[TritonLayers, TorchLayers]:
    """Both, with the same weights and the same attention."""
    layers = [layer(20 * i, rotates=i == 0, extras=extras) for i in range(2)]
    attention = reference.paged_attention
    return TritonLayers(SHAPE, layers, linear, attention), TorchLayers(
        SHAPE, layers, attention=attention
    )


def pages(dtype: torch.dtype) -> KVPages:
    return empty_pages(2, 12, SHAPE.num_kv_heads, PAGE_SIZE, SHAPE.head_dim, dtype, "cpu")


def inputs(step: Ragged, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden rows and the rotation of their positions."""
    rows = len(step.slots)
    angles = torch.zeros(rows)
    for i in range(step.num_requests):
        start, end, length = int(step.starts[i]), int(step.starts[i + 1]), int(step.lengths[i])
        angles[start:end] = torch.arange(length - (end - start), length)
    frequencies = 0.5 ** torch.arange(SHAPE.head_dim // 2)
    turns = angles[:, None] * frequencies
    return randn(rows, HIDDEN, seed=seed), turns.cos(), turns.sin()


STEPS = [
    # Two prompts and padding, a chunk with a decode row, two decode rows.
    ragged([6, 5], [6, 5], [[3, 7], [0, 9]], PAGE_SIZE, 12, "cpu"),
    ragged([3, 1], [9, 6], [[3, 7, 4], [0, 9]], PAGE_SIZE, 4, "cpu"),
    ragged([1, 1], [10, 7], [[3, 7, 4], [0, 9]], PAGE_SIZE, 4, "cpu"),
]


@pytest.mark.parametrize("extras", [False, True])
def test_hidden_rows_and_pages_are_those_of_the_torch_layers(extras: bool) -> None:
    """Prompts, chunks and decode rows: results and stored K and V agree in fp32."""
    triton_layers, torch_layers = stacks(extras)
    found_pages, expected_pages = pages(torch.float32), pages(torch.float32)
    for seed, step in enumerate(STEPS):
        hidden, cos, sin = inputs(step, seed)
        found = triton_layers(hidden, cos, sin, found_pages, step)
        expected = torch_layers(hidden, cos, sin, expected_pages, step)
        rows = step.num_rows
        torch.testing.assert_close(found[:rows], expected[:rows], rtol=1e-5, atol=2e-5)
    torch.testing.assert_close(found_pages.k, expected_pages.k, rtol=1e-5, atol=2e-5)
    torch.testing.assert_close(found_pages.v, expected_pages.v, rtol=1e-5, atol=2e-5)
    assert found_pages.k.any(), "something was stored"


def test_int8_pages_are_those_of_the_torch_layers() -> None:
    """With an INT8 pool the results agree to what a code that fell the other way changes."""
    triton_layers, torch_layers = stacks(extras=True)
    found_pages, expected_pages = pages(torch.int8), pages(torch.int8)
    for seed, step in enumerate(STEPS):
        hidden, cos, sin = inputs(step, seed)
        found = triton_layers(hidden, cos, sin, found_pages, step)[: step.num_rows]
        expected = torch_layers(hidden, cos, sin, expected_pages, step)[: step.num_rows]
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)
    codes = found_pages.k.int() - expected_pages.k.int()
    assert codes.abs().max() <= 1


def test_a_prompt_cut_in_chunks_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With exact products and attention, a cut of the prompt changes no bit of rows or pages."""
    order_dots(monkeypatch)
    layers, _ = stacks(extras=False)
    whole = ragged([8], [8], [[2, 5]], PAGE_SIZE, 8, "cpu")
    hidden, cos, sin = inputs(whole, seed=9)
    together = pages(torch.float32)
    expected = layers(hidden, cos, sin, together, whole)
    for cut in (1, 4, 7):
        apart = pages(torch.float32)
        for start, end in ((0, cut), (cut, 8)):
            step = ragged([end - start], [end], [[2, 5]], PAGE_SIZE, end - start, "cpu")
            found = layers(hidden[start:end], cos[start:end], sin[start:end], apart, step)
        assert torch.equal(found, expected[cut:]), cut
        assert torch.equal(apart.k, together.k)
        assert torch.equal(apart.v, together.v)


def test_no_layers_leave_the_rows_as_they_are() -> None:
    """An empty stack is the identity."""
    hidden, cos, sin = inputs(STEPS[0], seed=0)
    empty = TritonLayers(SHAPE, [], linear, reference.paged_attention)
    assert torch.equal(empty(hidden, cos, sin, pages(torch.float32), STEPS[0]), hidden)


def test_packed_weights_are_refused() -> None:
    """A matrix in the CPU's format is refused when the stack is made."""
    plain = layer(0, rotates=True, extras=False)
    assert isinstance(plain.qkv, Tensor)
    packed = LayerWeights(
        plain.input_norm,
        pack_fp32(plain.qkv),
        plain.out,
        plain.middle_norm,
        plain.gate_up,
        plain.down,
    )
    with pytest.raises(TypeError, match="PackedMatrix"):
        TritonLayers(SHAPE, [packed], linear, reference.paged_attention)
