"""Pages that several requests share are read once, and nobody's result changes by it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from radixchat.kernels.attention_buffers import AttentionShape, AttentionWork, StepLimits
from radixchat.kernels.attention_tiles import AttentionTiles, TileChoice
from radixchat.kernels.attention_work import SharedPrefix, StepWork
from radixchat.kernels.triton_attention import attend
from radixchat.tests.kernels.ordered_dot import order_dots
from radixchat.tests.kernels.poisoned_step import PoisonedStep, poisoned_step

PAGE = 16
NARROW, WIDE = AttentionTiles(16, 64, 4, 1, 1), AttentionTiles(64, 128, 4, 1, 1)


def work_for(case: PoisonedStep, *, exact: bool = False) -> AttentionWork:
    rows, heads, dim = case.query.shape
    kv_heads, dtype = case.kv.k.shape[1], case.query.dtype
    shape = AttentionShape(heads, kv_heads, dim, case.kv.page_size, dtype, case.kv.k.dtype)
    limits = StepLimits(rows, case.step.num_requests)
    tiles = TileChoice(WIDE if exact else NARROW, WIDE)
    return AttentionWork(shape, limits, "cpu", exact=exact, tiles=tiles)


def computed(
    case: PoisonedStep, shared: list[SharedPrefix], *, exact: bool = False
) -> tuple[Tensor, StepWork]:
    """The step's output, in tensors that were full of NaN, and its work."""
    work = work_for(case, exact=exact)
    plan = work.fill(case.step, len(case.query), shared)
    work.part_sums.fill_(torch.nan)
    work.part_totals.fill_(torch.nan)
    output = torch.full(case.query.shape, torch.nan, dtype=case.query.dtype)
    attend(case.query, case.kv, case.step.page_tables, work, output)
    return output, plan


def pages_read(plan: StepWork) -> int:
    return plan.narrow.pages_read(PAGE) + plan.wide.pages_read(PAGE)


@pytest.mark.parametrize(
    ("sharpness", "int8"),
    [(0.0, False), (1.0, True), (8.0, False)],
    ids=["flat", "usual INT8", "sharp"],
)
def test_it_equals_the_plain_kernel(
    sharpness: float, int8: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 1e-6 in fp32, whether all keys weigh the same or one weighs almost everything."""
    order_dots(monkeypatch)
    case = poisoned_step(
        [1, 1, 3, 1, 1], [401, 350, 340, 337, 400], heads=(1, 2, 16), shared=336,
        sharpness=sharpness, int8=int8, padding=1,
    )  # fmt: skip
    plain, _ = computed(case, [])
    cascade, _ = computed(case, [SharedPrefix((0, 1, 2, 3, 4), 336)])
    torch.testing.assert_close(cascade, plain, atol=1e-6, rtol=0)
    torch.testing.assert_close(cascade.double(), case.expected(), atol=4e-6, rtol=4e-6)


def test_each_page_is_read_once() -> None:
    """As many pages as there are, where every request by itself reads the prefix again.

    160 rows and heads of 64 a block: an item walks its keys for all of them before it goes on.
    """
    lengths = [257 + i for i in range(20)]
    case = poisoned_step([1] * 20, lengths, heads=(1, 8, 16), shared=256)
    unique = {page for table in case.tables for page in table}
    logical = sum(map(len, case.tables))
    shared = [SharedPrefix(tuple(range(20)), 256)]
    output, plan = computed(case, shared)
    torch.testing.assert_close(output.double(), case.expected(), atol=2e-6, rtol=2e-6)
    assert pages_read(plan) == len(unique)
    plain = work_for(case).fill(case.step, len(case.query))
    assert pages_read(plain) == logical


def test_groups_and_strays_share_a_step() -> None:
    """Two groups whose rows lie between each other's, one request alone, a chunk in a group."""
    case = poisoned_step([1, 1, 40, 1, 1], [200, 150, 190, 160, 210], heads=(1, 3, 16), shared=96)
    shared = [SharedPrefix((0, 2), 96), SharedPrefix((1, 4), 64)]
    output, plan = computed(case, shared)
    torch.testing.assert_close(output.double(), case.expected(), atol=2e-6, rtol=2e-6)
    assert pages_read(plan) < pages_read(work_for(case).fill(case.step, len(case.query)))


def test_exact_rows_have_the_same_bits_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefix is cut back to whole splits, whose parts are folded in the same order."""
    order_dots(monkeypatch)
    case = poisoned_step([1, 1, 1], [400, 330, 337], heads=(1, 2, 16), shared=320)
    plain, _ = computed(case, [], exact=True)
    cascade, plan = computed(case, [SharedPrefix((0, 1, 2), 320)], exact=True)
    assert torch.equal(cascade, plain)
    assert [item[4] for item in plan.wide.items] == [256]


def test_rows_among_the_shared_tokens_are_refused() -> None:
    """They could not see what is behind them; a request in two groups is refused too."""
    case = poisoned_step([1, 40], [60, 60], heads=(1, 2, 16), shared=32)
    with pytest.raises(AssertionError, match="num_tokens=32"):
        computed(case, [SharedPrefix((0, 1), 32)])
    case = poisoned_step([1, 1], [60, 60], heads=(1, 2, 16), shared=32)
    with pytest.raises(AssertionError, match="in two groups"):
        computed(case, [SharedPrefix((0, 1), 32), SharedPrefix((1,), 32)])
