"""The list of work covers every key of every row once, in equal shares."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from radixchat.kernels.attention_work import (
    BEHIND_ALL,
    END_KEY,
    FIRST_KEY,
    NUM_ROWS,
    PART,
    POSITION,
    ROW,
    TABLE,
    Share,
    SharedPrefix,
    StepWork,
    WorkShape,
    plan_work,
)

PAGE = 16
Step = tuple[list[int], list[int], list[SharedPrefix]]


def shape(
    programs: int, *, split: int = 0, fixed: bool = False, max_parts: int = 1 << 20
) -> WorkShape:
    wide = Share(4 if split else 32, 64, programs)
    return WorkShape(Share(4, 64, programs), wide, split, max_parts, fixed)


def arrays(counts: list[int], lengths: list[int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return starts, np.array(lengths, dtype=np.int32)


def check(counts: list[int], lengths: list[int], work: StepWork, plan: WorkShape) -> None:
    """Items have all keys that a row sees, each once; its parts are numbered through."""
    starts, _ = arrays(counts, lengths)
    seen = [Counter[int]() for _ in range(sum(counts))]
    parts = [list[int]() for _ in range(sum(counts))]
    for each in (work.narrow, work.wide):
        assert each.starts[0] == 0
        assert each.starts[-1] == len(each.items)
        assert (np.diff(each.starts) >= 0).all()
        for item in each.items:
            for row in work.rows[item[ROW] : item[ROW] + item[NUM_ROWS]]:
                if row >= starts[-1]:  # padding
                    assert item[FIRST_KEY] == item[END_KEY]
                    continue
                request = int(np.searchsorted(starts, row, side="right")) - 1
                position = lengths[request] - starts[request + 1] + row
                if item[POSITION] != BEHIND_ALL:
                    assert item[TABLE] == request
                    assert item[POSITION] == position - (row - work.rows[item[ROW]])
                seen[row].update(range(item[FIRST_KEY], min(item[END_KEY], position + 1)))
                splits = -(-(item[END_KEY] - item[FIRST_KEY]) // plan.split) if plan.split else 1
                parts[row] += [item[PART] + i for i in range(splits)] if item[PART] >= 0 else []
    for row, keys in enumerate(seen):
        request = int(np.searchsorted(starts, row, side="right")) - 1
        position = lengths[request] - starts[request + 1] + row
        assert keys == Counter(range(position + 1))
        assert sorted(parts[row]) == list(range(work.part_count[row]))
    assert (work.part_base == np.cumsum(work.part_count) - work.part_count).all()
    assert work.merged.tolist() == work.part_count.nonzero()[0].tolist()


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """A few requests, a trunk of whole pages that some of them share."""
    tokens = PAGE * draw(st.integers(0, 40))
    own = draw(st.lists(st.integers(1, 700), min_size=1, max_size=6))
    counts = [draw(st.integers(1, min(n, draw(st.sampled_from([1, 5, 80]))))) for n in own]
    members = tuple(i for i in range(len(own)) if draw(st.booleans()))
    if len(members) < 2 or not tokens:
        return counts, own, []
    lengths = [n + tokens * (i in members) for i, n in enumerate(own)]
    return counts, lengths, [SharedPrefix(members, tokens)]


@settings(max_examples=60)
@given(
    step=steps(), programs=st.integers(1, 9), split=st.sampled_from([0, 256]), fixed=st.booleans()
)
def test_every_key_of_every_row_once(step: Step, programs: int, split: int, fixed: bool) -> None:
    """Whatever the lengths, the rows, the prefix, the programs and the mode."""
    counts, lengths, shared = step
    plan = shape(programs, split=split, fixed=fixed)
    work = plan_work(*arrays(counts, lengths), sum(counts) + 2, plan, shared)
    check(counts, lengths, work, plan)
    if split:
        first = np.concatenate((work.narrow.items, work.wide.items))[:, FIRST_KEY]
        assert not (first % split).any()
    if fixed:
        assert len(work.narrow.starts) == len(work.wide.starts) == programs + 1


@settings(max_examples=30)
@given(step=steps(), max_parts=st.integers(0, 12), split=st.sampled_from([0, 256]))
def test_parts_never_exceed_their_room(step: Step, max_parts: int, split: int) -> None:
    """Then prefixes are read by each request, and requests stay whole, but nothing is left out."""
    counts, lengths, shared = step
    plan = shape(5, split=split, max_parts=max_parts)
    work = plan_work(*arrays(counts, lengths), sum(counts), plan, shared)
    assert work.part_count.sum() <= max_parts
    check(counts, lengths, work, plan)


@pytest.mark.parametrize("split", [0, 256])
@pytest.mark.parametrize("programs", [16, 17, 33, 66])
def test_one_long_request_among_short_ones_is_balanced(programs: int, split: int) -> None:
    """Longest share / mean at most 1.1 on 8,192 tokens and 63 times 128; uncut it is 32."""
    lengths = [128] * 30 + [8192] + [128] * 33
    plan = shape(programs, split=split, fixed=True)
    work = plan_work(*arrays([1] * 64, lengths), 64, plan)
    keys = work.narrow.keys_by_program()
    assert keys.sum() == sum(lengths)
    assert keys.max() / keys.mean() <= 1.1
    assert max(lengths) / np.mean(lengths) > 30  # control


def test_many_blocks_of_a_prompt_get_a_program_each_longest_first() -> None:
    """Nothing to cut: the hardware hands blocks out as programs end, and no part is merged."""
    work = plan_work(*arrays([4096], [4096]), 4096, shape(4))
    assert len(work.wide.items) == 128
    assert (np.diff(work.wide.starts) == 1).all()
    assert (np.diff(work.wide.keys_by_program()) < 64).all(), "longest first, to a tile"
    assert not work.merged.size


def test_a_few_rows_far_behind_are_cut() -> None:
    """A chunk of 20 rows at 8k of context is shared out, though it is one block."""
    work = plan_work(*arrays([20], [8192]), 20, shape(8))
    keys = work.wide.keys_by_program()
    assert keys.max() / keys.mean() <= 1.1
    assert (work.part_count == 8).all()


def test_planning_64_requests_takes_no_time() -> None:
    """Some 70 microseconds where nobody else computes; the bound leaves room for those who do."""
    starts, lengths = arrays([1] * 64, [8192 - 7 * i for i in range(64)])
    plan, best = shape(33, fixed=True), float("inf")
    for _ in range(50):
        begin = time.perf_counter()
        plan_work(starts, lengths, 64, plan)
        best = min(best, time.perf_counter() - begin)
    assert best < 500e-6
