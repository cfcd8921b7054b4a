"""How attention is shared among parts: all of it, once, and evenly."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from radixchat.kernels import cpu_plan as p
from radixchat.kernels.cpu_plan import AttentionPlan, plan_attention
from radixchat.kernels.ragged import Ragged, ragged

STEPS = [
    ([1], [1]),
    ([1], [4096]),
    ([512], [4096]),
    ([1] * 8, [512] * 8),
    ([100, 1, 3, 1], [100, 2000, 257, 1]),
]


def step_of(counts: Sequence[int], lengths: Sequence[int]) -> Ragged:
    """A step whose pages don't matter."""
    tables = [list(range(-(-length // 16))) for length in lengths]
    return ragged(counts, lengths, tables, 16, sum(counts), "cpu")


def units(work: AttentionPlan) -> list[tuple[int, ...]]:
    """(head, first row, positions, tile) of every unit of work, in order."""
    return [
        (item[p.HEAD], item[p.FIRST_ROW], item[p.POSITIONS], tile)
        for item in work.items.tolist()
        for tile in range(item[p.FIRST_TILE], item[p.END_TILE])
    ]


def cost(items: np.ndarray, group: int) -> int:
    """What items cost, in rows times keys."""
    total = 0
    for item in items:
        keys = min(item[p.END_TILE] * p.KEY_TILE, item[p.FIRST_POSITION] + item[p.POSITIONS])
        keys -= item[p.FIRST_TILE] * p.KEY_TILE
        total += int(keys * (item[p.POSITIONS] * group + p.KEY_COST))
    return total


@pytest.mark.parametrize("num_parts", [1, 2, 7])
@pytest.mark.parametrize(("counts", "lengths"), STEPS)
def test_every_tile_of_every_row_is_work_once(
    counts: list[int], lengths: list[int], num_parts: int
) -> None:
    """Whatever the number of parts, the units are the same."""
    work = plan_attention(step_of(counts, lengths), 9, 3, 64, num_parts)
    assert units(work) == units(plan_attention(step_of(counts, lengths), 9, 3, 64, 1))
    assert work.bounds[0] == 0
    assert work.bounds[-1] == len(work.items)
    assert (np.diff(work.bounds) >= 0).all()
    seen = np.zeros((3, sum(counts), -(-max(lengths) // p.KEY_TILE)), dtype=int)
    for head, row, positions, tile in units(work):
        seen[head, row : row + positions, tile] += 1
    starts = np.cumsum([0, *counts])
    for request, length in enumerate(lengths):
        for row in range(starts[request], starts[request + 1]):
            position = length - (starts[request + 1] - row)
            assert (seen[:, row, : position // p.KEY_TILE + 1] == 1).all()
    assert seen.max() == 1


@pytest.mark.parametrize("num_parts", [2, 7])
@pytest.mark.parametrize(("counts", "lengths"), STEPS)
def test_blocks_in_pieces_are_folded_and_own_their_states(
    counts: list[int], lengths: list[int], num_parts: int
) -> None:
    """No two states share memory, and no piece lacks its fold."""
    work = plan_attention(step_of(counts, lengths), 9, 3, 64, num_parts)
    split = {tuple(item[[p.HEAD, p.FIRST_ROW]]) for item in work.items if item[p.SLOT] >= 0}
    assert split == {tuple(item[[p.HEAD, p.FIRST_ROW]]) for item in work.folds}
    assert len(split) == len(work.folds) < num_parts
    slot = 0
    for item in work.folds:
        assert item[p.SLOT] == slot
        slot += item[p.END_TILE] * item[p.POSITIONS] * 3
    assert work.states.nbytes == slot * p.state_bytes(64)


@pytest.mark.parametrize(("counts", "lengths"), [STEPS[1], STEPS[2], STEPS[3]])
def test_parts_cost_the_same(counts: list[int], lengths: list[int]) -> None:
    """Within a unit: decode at 4,096 on 2 threads splits the middle one of three KV heads."""
    work = plan_attention(step_of(counts, lengths), 9, 3, 64, 2)
    costs = [cost(work.items[a:b], 3) for a, b in itertools.pairwise(work.bounds)]
    assert max(costs) <= 1.05 * sum(costs) / 2, costs


def test_what_cannot_be_shared_is_refused() -> None:
    """With the value in the message."""
    with pytest.raises(ValueError, match="9 heads are no multiple of 2"):
        plan_attention(step_of([1], [1]), 9, 2, 64, 1)
    with pytest.raises(ValueError, match="0 parts"):
        plan_attention(step_of([1], [1]), 9, 3, 64, 0)
