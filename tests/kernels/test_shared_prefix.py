"""Requests that read the same pages are found from their tables, and nobody else."""

from __future__ import annotations

import random

import numpy as np

from radixchat.kernels.attention_work import SharedPrefix
from radixchat.kernels.shared_prefix import shared_prefixes

PAGE = 16


def found(
    tables: list[list[int]], lengths: list[int], counts: list[int] | None = None, least: int = 1
) -> list[SharedPrefix]:
    width = max(map(len, tables))
    padded = np.zeros((len(tables), width), dtype=np.int32)
    for row, table in zip(padded, tables, strict=True):
        row[: len(table)] = table
    starts = np.concatenate(([0], np.cumsum(counts or [1] * len(tables)))).astype(np.int32)
    return shared_prefixes(padded, starts, np.array(lengths, dtype=np.int32), PAGE, least)


def test_a_prefix_of_all_is_found_to_its_last_whole_page() -> None:
    """The tables differ behind three pages."""
    tables = [[7, 8, 9, 1], [7, 8, 9, 2], [7, 8, 9, 3]]
    assert found(tables, [60, 50, 49]) == [SharedPrefix((0, 1, 2), 48)]


def test_no_row_of_the_step_is_among_what_is_shared() -> None:
    """A request that computes from position 40 on shares two pages, however long the others do."""
    tables = [[7, 8, 9, 1], [7, 8, 9, 2]]
    assert found(tables, [60, 60], [20, 1]) == [SharedPrefix((0, 1), 32)]
    assert found(tables, [60, 48], [1, 1]) == [SharedPrefix((0, 1), 32)]


def test_zeros_behind_a_short_table_are_no_pages() -> None:
    """Page 0 is somebody's, and padding has its number."""
    assert found([[5, 0, 0], [5]], [48, 10], least=1) == []
    assert found([[5, 0, 0], [5, 6]], [48, 20], least=1) == [SharedPrefix((0, 1), 16)]


def test_what_is_short_is_not_worth_it() -> None:
    """Under `least` pages nothing is shared."""
    tables = [[7, 8, 1], [7, 8, 2]]
    assert found(tables, [40, 40], least=2) == [SharedPrefix((0, 1), 32)]
    assert found(tables, [40, 40], least=3) == []


def test_the_longer_prefix_of_some_is_taken_where_it_saves_more() -> None:
    """Six share a page; two pairs of them share ten."""
    long = [list(range(100 * i, 100 * i + 9)) for i in range(2)]
    tables = [[7, *long[i // 2], 50 + i] for i in range(4)] + [[7, 60], [7, 61]]
    lengths = [11 * PAGE] * 4 + [2 * PAGE] * 2
    assert found(tables, lengths) == [SharedPrefix((0, 1), 160), SharedPrefix((2, 3), 160)]
    shallow = [[7, 8, 20 + i // 2, 50 + i] for i in range(4)] + [[7, 8, 60], [7, 8, 61]]
    lengths = [4 * PAGE] * 4 + [3 * PAGE] * 2
    assert found(shallow, lengths) == [SharedPrefix(tuple(range(6)), 32)]


def test_groups_are_disjoint_and_share_what_they_say() -> None:
    """Of random trees of tables."""
    rng = random.Random(0)
    for _ in range(100):
        trunk = rng.sample(range(1000), 12)
        tables = [
            [*trunk[: rng.randint(1, 12)], *rng.sample(range(1000, 9000), rng.randint(1, 5))]
            for _ in range(rng.randint(1, 9))
        ]
        lengths = [len(table) * PAGE - rng.randrange(PAGE) for table in tables]
        seen: set[int] = set()
        for group in found(tables, lengths):
            assert len(group.requests) > 1
            assert not seen & set(group.requests)
            seen |= set(group.requests)
            pages = group.num_tokens // PAGE
            assert len({tuple(tables[i][:pages]) for i in group.requests}) == 1
            assert all(group.num_tokens < lengths[i] for i in group.requests)
