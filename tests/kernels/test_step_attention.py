"""Attention for other models, on every device's kernels: the reference, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from radixchat.kernels import ops
from radixchat.kernels.cpu_step_attention import CpuStepAttention
from radixchat.kernels.gpu_step_attention import GpuStepAttention
from radixchat.kernels.kv_pages import KVPages
from radixchat.kernels.layers import LayerShape
from radixchat.kernels.ragged import Ragged
from radixchat.kernels.step_attention import StepAttention, TorchStepAttention

SHAPE = LayerShape(num_heads=6, num_kv_heads=2, head_dim=32, rms_eps=0.0)
PAGES, PAGE = 48, 16
# Rows and positions of the requests of three steps: prompts, what follows one, a decode step.
STEPS = (((5, 300), (5, 300)), ((7, 1, 20), (12, 301, 20)), ((1, 1, 1), (13, 302, 21)))
# Triton's interpreter takes a second for ten rows.
SHORT = (((1, 3), (1, 3)), ((2, 1), (3, 4)))
MADE: dict[str, Callable[[], StepAttention]] = {
    "torch": TorchStepAttention,
    "cpu": lambda: CpuStepAttention(SHAPE, threads=1),
    "cpu on two threads": lambda: CpuStepAttention(SHAPE, threads=2),
    "gpu": lambda: GpuStepAttention(SHAPE, torch.float32),
}


def pages(kv: torch.dtype) -> KVPages:
    """Two layers."""
    return ops.empty_pages(2, PAGES, SHAPE.num_kv_heads, PAGE, SHAPE.head_dim, kv, "cpu")


def step(counts: Sequence[int], lengths: Sequence[int], num_rows: int) -> Ragged:
    """A step over scattered pages."""
    tables = [[3], list(range(47, 20, -1)), [7, 5]]
    return ops.ragged(counts, lengths, tables[: len(counts)], PAGE, num_rows, "cpu")


@pytest.mark.parametrize("kv", [torch.float32, torch.int8], ids=["fp32", "int8"])
@pytest.mark.parametrize("made", MADE)
@torch.inference_mode()
def test_a_step_is_the_reference_s(made: str, kv: torch.dtype) -> None:
    """K and V in the pool, and what every row reads of both layers; padding rows are zeros."""
    attention, theirs = MADE[made](), TorchStepAttention()
    ours_kv, theirs_kv = pages(kv), pages(kv)
    generator = torch.Generator().manual_seed(0)
    for counts, lengths in SHORT if made == "gpu" else STEPS:
        rows = sum(counts)
        padded = rows + 3
        now = step(counts, lengths, padded)
        attention.begin(ours_kv, now, padded)
        theirs.begin(theirs_kv, now, padded)
        for layer in range(2):
            query, key, value = (
                torch.randn(heads, padded, SHAPE.head_dim, generator=generator).transpose(0, 1)
                for heads in (SHAPE.num_heads, SHAPE.num_kv_heads, SHAPE.num_kv_heads)
            )
            found = attention(layer, query, key, value)
            expected = theirs(layer, query, key, value)
            torch.testing.assert_close(found, expected, atol=2e-6, rtol=2e-5)
            assert not found[rows:].any()
    for one, other in zip(ours_kv.parts(), theirs_kv.parts(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kv", [torch.float32, torch.int8], ids=["fp32", "int8"])
@torch.inference_mode()
def test_threads_change_no_bit(kv: torch.dtype) -> None:
    """Blocks that are attended in pieces are folded in the same order."""
    results = []
    for threads in (1, 2, 5):
        attention, cache = CpuStepAttention(SHAPE, threads), pages(kv)
        attention.begin(cache, step(*STEPS[0], 308), 308)
        parts = [
            torch.randn(308, n, SHAPE.head_dim, generator=torch.Generator().manual_seed(n))
            for n in (SHAPE.num_heads, SHAPE.num_kv_heads, SHAPE.num_kv_heads)
        ]
        results.append(attention(1, *parts))
    assert all(torch.equal(result, results[0]) for result in results)


def test_the_kernels_that_can_compute_it_are_chosen() -> None:
    """By device, head size and type; torch for what they have no code for."""

    def chosen(head_dim: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> type:
        return type(ops.step_attention(LayerShape(4, 2, head_dim, 0.0), dtype, device=device))

    assert chosen(32) is CpuStepAttention
    assert chosen(24) is chosen(32, torch.bfloat16) is TorchStepAttention
    assert chosen(24, torch.bfloat16, "cuda") is GpuStepAttention
    assert chosen(8, device="cuda") is chosen(33, device="cuda") is TorchStepAttention
