"""Attention in Triton, in the interpreter, against its definition in fp64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from radixchat.kernels.attention_buffers import AttentionShape, AttentionWork, StepLimits
from radixchat.kernels.attention_tiles import AttentionTiles, TileChoice
from radixchat.kernels.triton_attention import attend, paged_attention
from radixchat.tests.kernels.ordered_dot import order_dots
from radixchat.tests.kernels.poisoned_step import PoisonedStep, poisoned_step

PAGE = 16
AROUND = [1, PAGE - 1, PAGE, PAGE + 1, 255, 256, 257]
# Wider than the table's for fp32: the interpreter takes its time a tile, whatever is in it.
NARROW, WIDE = AttentionTiles(16, 64, 4, 1, 1), AttentionTiles(64, 128, 4, 1, 1)
TILES = TileChoice(NARROW, WIDE)
ONE_WAY = TileChoice(WIDE, WIDE)


def close(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(actual.double(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    ("dtype", "int8", "tolerance"),
    [
        (torch.float32, False, 2e-6),
        (torch.float16, False, 1e-3),
        (torch.bfloat16, True, 1e-2),
        pytest.param(torch.bfloat16, False, 1e-2, marks=pytest.mark.slow),
        pytest.param(torch.float32, True, 2e-6, marks=pytest.mark.slow),
    ],
)
def test_decode_equals_its_definition(dtype: torch.dtype, int8: bool, tolerance: float) -> None:
    """An odd batch of lengths around a page and a split, in every type; padding becomes zeros."""
    case = poisoned_step(
        [1] * len(AROUND), AROUND, heads=(1, 3, 32), dtype=dtype, int8=int8, padding=2
    )
    output = paged_attention(case.query, case.kv, case.step, tiles=TILES)
    assert output.dtype == dtype
    close(output, case.expected(), tolerance)


@pytest.mark.parametrize(("page_size", "int8"), [(1, True), (8, False), (32, True)])
def test_chunks_drafts_and_decode_rows_share_a_step(page_size: int, int8: bool) -> None:
    """A whole prompt, a chunk in the middle of one, a draft, and a row, over pages of any size.

    The chunk's first row sees a tile of 128 keys but for the last.
    """
    case = poisoned_step(
        [40, 70, 3, 1], [40, 196, 90, 33], heads=(1, 2, 16), page_size=page_size, int8=int8
    )
    close(paged_attention(case.query, case.kv, case.step, tiles=TILES), case.expected(), 2e-6)


@pytest.mark.parametrize(
    "heads", [(2, 1, 16), (1, 7, 48), (1, 4, 128)], ids=lambda h: "x".join(map(str, h))
)
def test_head_counts_groups_and_sizes(heads: tuple[int, int, int]) -> None:
    """Groups that are no power of two, a size that is none, both layouts of K."""
    for by_dimension in (False, True):
        case = poisoned_step([1, 10], [70, 20], heads=heads, by_dimension=by_dimension)
        output = paged_attention(case.query, case.kv, case.step, tiles=TILES)
        close(output, case.expected(), 2e-6)


@pytest.mark.parametrize("exact", [False, True])
def test_the_tables_tiles_compute_the_same(exact: bool) -> None:
    """Without tiles of the caller's, those for the head size and types."""
    case = poisoned_step([1, 30], [300, 60], heads=(1, 3, 64), dtype=torch.float16)
    close(paged_attention(case.query, case.kv, case.step, exact=exact), case.expected(), 1e-3)


@pytest.fixture
def ordered_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's order of additions for the interpreter."""
    order_dots(monkeypatch)


def chunk(case: PoisonedStep, start: int, end: int, *, exact: bool) -> Tensor:
    """The rows start..end of a prompt, computed as one chunk of it."""
    query, step = case.part(0, end - start, end)
    tiles = ONE_WAY if exact else TILES
    return paged_attention(query, case.kv, step, exact=exact, tiles=tiles)


@pytest.mark.usefixtures("ordered_dots")
@pytest.mark.parametrize("int8", [False, True])
def test_exact_rows_do_not_depend_on_the_cut(int8: bool) -> None:
    """Rows of a whole prompt, of chunks that begin or end around a split, of one row: same bits."""
    case = poisoned_step([300], [300], heads=(1, 2, 16), int8=int8)
    whole = chunk(case, 0, 300, exact=True)
    close(whole, case.expected(), 2e-6)
    for start, end in ((0, 1), (250, 258), (255, 256), (256, 257), (299, 300)):
        assert torch.equal(chunk(case, start, end, exact=True), whole[start:end]), (start, end)


@pytest.mark.usefixtures("ordered_dots")
def test_without_exactness_they_do() -> None:
    """Control: parts end where a program's share ends, and other bits come out."""
    case = poisoned_step([60], [300], heads=(1, 2, 16))
    whole, row = chunk(case, 240, 300, exact=False), chunk(case, 299, 300, exact=False)
    assert not torch.equal(row, whole[-1:])
    close(whole, case.expected(), 2e-6)
    close(row, case.expected()[-1:], 2e-6)


@pytest.mark.usefixtures("ordered_dots")
def test_exact_rows_do_not_depend_on_the_batch() -> None:
    """A long row that is cut beside others has the bits that it has alone and uncut."""
    case = poisoned_step([1, 1, 1, 20], [700, 70, 300, 40], heads=(1, 2, 16), padding=1)
    together = paged_attention(case.query, case.kv, case.step, exact=True, tiles=ONE_WAY)
    close(together, case.expected(), 2e-6)
    for i, (count, length) in enumerate(((1, 700), (1, 70), (1, 300), (20, 40))):
        query, step = case.part(i, count, length)
        alone = paged_attention(query, case.kv, step, exact=True, tiles=ONE_WAY)
        rows = slice(int(case.step.starts[i]), int(case.step.starts[i + 1]))
        assert torch.equal(together[rows], alone)


def work_for(
    case: PoisonedStep, limits: StepLimits, *, exact: bool, part_bytes: int
) -> AttentionWork:
    """Work for steps like this one."""
    _, heads, dim = case.query.shape
    shape = AttentionShape(
        heads, case.kv.k.shape[1], dim, case.kv.page_size, case.query.dtype, case.kv.k.dtype
    )
    tiles = ONE_WAY if exact else TILES
    return AttentionWork(shape, limits, "cpu", exact=exact, tiles=tiles, part_bytes=part_bytes)


def poisoned_output(case: PoisonedStep, work: AttentionWork) -> Tensor:
    """The step's output, in tensors that were full of NaN."""
    work.part_sums.fill_(torch.nan)
    work.part_totals.fill_(torch.nan)
    output = torch.full(case.query.shape, torch.nan, dtype=case.query.dtype)
    attend(case.query, case.kv, case.step.page_tables, work, output)
    return output


@pytest.mark.usefixtures("ordered_dots")
def test_without_room_for_parts_exact_rows_have_the_same_bits() -> None:
    """What one program folds by itself, and what many leave to be merged."""
    case = poisoned_step([1, 1], [600, 40], heads=(1, 2, 16))
    outputs = list[Tensor]()
    for room, merged in ((1 << 20, 1), (0, 0)):
        work = work_for(case, StepLimits(2, 2), exact=True, part_bytes=room)
        assert len(work.fill(case.step, 2).merged) == merged
        outputs.append(poisoned_output(case, work))
    assert torch.equal(*outputs)
    close(outputs[0], case.expected(), 2e-6)


def test_a_graphs_launches_are_the_same_for_every_step() -> None:
    """Steps of other lengths, fewer requests and padding fill the same tensors, launched alike."""
    cases = [
        poisoned_step([1] * len(lengths), lengths, heads=(2, 2, 16), padding=4 - len(lengths))
        for lengths in ([300, 1, 64], [5, 17, 16, 33], [400])
    ]
    work = work_for(
        cases[0], StepLimits(4, 4, fixed=True, cascade=False), exact=False, part_bytes=1 << 20
    )
    launched = set()
    for case in cases:
        work.fill(case.step, 4)
        addresses = [(each.items.data_ptr(), each.starts.data_ptr()) for each in work.launches]
        programs = [(each.tiles, each.programs) for each in work.launches]
        launched.add((*addresses, *programs, work.merge_programs, work.merged.data_ptr()))
        close(poisoned_output(case, work), case.expected(), 2e-6)
    assert len(launched) == 1


def test_a_graph_refuses_what_it_was_not_made_for() -> None:
    """More rows of a request than a narrow block holds, and shared prefixes."""
    case = poisoned_step([9], [9], heads=(1, 2, 16))
    limits = StepLimits(9, 1, fixed=True, cascade=False)
    work = work_for(case, limits, exact=False, part_bytes=1 << 20)
    with pytest.raises(AssertionError, match="more rows"):
        work.fill(case.step, 9)
