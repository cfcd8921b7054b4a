"""Layers on a GPU's kernels, in the interpreter: as torch computes them, planned ahead or not."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from radixchat.kernels.attention_work import SharedPrefix
from radixchat.kernels.decode_stack import PlansAhead, SelfPlanned
from radixchat.kernels.gpu_layers import GpuLayers
from radixchat.kernels.kv_pages import KVPages, empty_pages
from radixchat.kernels.layers import LayerShape, LayerWeights, TorchLayers
from radixchat.kernels.ops import decode_stacks
from radixchat.kernels.ragged import Ragged, ragged

SHAPE = LayerShape(num_heads=4, num_kv_heads=2, head_dim=16, rms_eps=1e-5)
HIDDEN, PAGE, PAGES = 64, 16, 8


def random(seed: int, *size: int) -> Tensor:
    scale: float = size[-1] ** -0.5
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * scale


LAYERS = [
    LayerWeights(
        input_norm=1 + random(10 * i, HIDDEN),
        qkv=random(10 * i + 1, 8 * 16, HIDDEN),
        out=random(10 * i + 2, HIDDEN, 64),
        middle_norm=1 + random(10 * i + 3, HIDDEN),
        gate_up=random(10 * i + 4, 2 * 96, HIDDEN),
        down=random(10 * i + 5, HIDDEN, 96),
    )
    for i in range(2)
]


def filled_pages() -> KVPages:
    """With a context in every page but the last, which is nobody's."""
    pages = empty_pages(2, PAGES, 2, PAGE, 16, torch.float32, "cpu")
    for part in pages.parts():
        part.copy_(torch.randn(part.shape, generator=torch.Generator().manual_seed(9)))
        part[:, -1] = torch.nan
    return pages


def a_step(
    counts: Sequence[int], lengths: Sequence[int], tables: Sequence[Sequence[int]], rows: int
) -> tuple[Ragged, Tensor, Tensor, Tensor]:
    """The step, and random rows with their rotation."""
    step = ragged(counts, lengths, tables, PAGE, rows, "cpu")
    angles = random(7, rows, 8) * 9
    return step, random(8, rows, HIDDEN) * 8, angles.cos(), angles.sin()


def near(found: Tensor, expected: Tensor) -> bool:
    return bool((found - expected).norm() <= 1e-5 * expected.norm())


def test_a_mixed_step_is_torch_s() -> None:
    """A chunk and a row, with padding; the stored K and V too."""
    step, hidden, cos, sin = a_step([6, 1], [20, 33], [[0, 1], [2, 3, 4]], 8)
    pages, right_pages = filled_pages(), filled_pages()
    found = GpuLayers(SHAPE, LAYERS, exact=False)(hidden, cos, sin, pages, step)
    expected = TorchLayers(SHAPE, LAYERS)(hidden, cos, sin, right_pages, step)
    assert near(found[:7], expected[:7])
    for part, right in zip(pages.parts(), right_pages.parts(), strict=True):
        assert near(part[:, :-1], right[:, :-1])


def test_a_planned_step_reads_a_shared_prefix_once() -> None:
    """Of three rows two share two pages; the fourth is nobody's and writes nothing."""
    tables = [[0, 1, 2], [0, 1, 3], [4, 5]]
    step, hidden, cos, sin = a_step([1, 1, 1], [40, 35, 20], tables, 4)
    right_pages = filled_pages()
    expected = TorchLayers(SHAPE, LAYERS)(hidden, cos, sin, right_pages, step)
    stack = GpuLayers(SHAPE, LAYERS, exact=False)
    assert isinstance(stack, PlansAhead)
    for cascade in (False, True):
        pages = filled_pages()
        planned = stack.planned(pages, 4, cascade=cascade)
        planned.plan(step, 4, [SharedPrefix((0, 1), 32)] if cascade else ())
        found = planned(hidden, cos, sin, pages, step)
        assert near(found[:3], expected[:3]), cascade
        for part, right in zip(pages.parts(), right_pages.parts(), strict=True):
            assert near(part[:, :-1], right[:, :-1])


def test_what_is_exact_reads_no_page_for_several() -> None:
    """Decode graphs are of one kind then, else of two; of layers that plan themselves too."""
    pages = filled_pages()
    for exact, kinds in ((False, 2), (True, 1)):
        stack = GpuLayers(SHAPE, LAYERS, exact=exact)
        assert len(decode_stacks(stack, pages, 4)) == kinds
    assert len(decode_stacks(TorchLayers(SHAPE, LAYERS), pages, 4)) == 1


def test_a_stack_that_plans_by_itself_needs_no_plan() -> None:
    """It is what it was, whatever it is told beforehand."""
    step, hidden, cos, sin = a_step([1], [5], [[0]], 4)
    stack = TorchLayers(SHAPE, LAYERS)
    assert not isinstance(stack, PlansAhead)
    decode = SelfPlanned(stack)
    decode.plan(step, 4)
    assert decode.row_alignment == stack.row_alignment
    expected = stack(hidden, cos, sin, filled_pages(), step)
    assert torch.equal(decode(hidden, cos, sin, filled_pages(), step), expected)
