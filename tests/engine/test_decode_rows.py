"""Rows of decode steps: everybody keeps his, and the tables are what was written."""

from __future__ import annotations

import random

from radixchat.engine.decode_rows import DecodeRows
from radixchat.engine.request import Request
from radixchat.tests.engine.driver import GREEDY


def requests(count: int) -> list[Request]:
    return [Request(i, [1], GREEDY) for i in range(count)]


def test_rows_are_the_first_ones_and_stay() -> None:
    """n requests have rows 0..n-1; who stays and had one of them has it still."""
    rows, rng, everyone = DecodeRows(8, 4), random.Random(0), requests(20)
    before: dict[Request, int] = {}
    for _ in range(300):
        chosen = rng.sample(everyone, rng.randint(1, 8))
        assigned = dict(zip(chosen, rows.assign(chosen), strict=True))
        assert sorted(assigned.values()) == list(range(len(chosen)))
        for request, row in before.items():
            if request in assigned and row < len(chosen):
                assert assigned[request] == row
        before = assigned


def test_a_table_begins_with_the_pages_that_were_written_last() -> None:
    """Whether they grow, shrink, or change at the end, in the middle or altogether."""
    rows, rng = DecodeRows(2, 30), random.Random(1)
    pages: list[int] = []
    for _ in range(500):
        match rng.randrange(4):
            case 0:
                pages = pages + rng.choices(range(99), k=rng.randint(0, 30 - len(pages)))
            case 1:
                pages = pages[: rng.randint(0, len(pages))]
            case 2 if pages:
                pages = [*pages[:-1], rng.randrange(99)]
            case _ if pages:
                index = rng.randrange(len(pages))
                pages = [*pages[:index], rng.randrange(99), *pages[index + 1 :]]
        rows.write(1, pages)
        assert rows.tables[1, : len(pages)].tolist() == pages
    assert not rows.tables[0].any()


def test_a_list_that_is_changed_afterwards_is_written_again() -> None:
    """A table is compared with what it was, not with the caller's list."""
    rows = DecodeRows(1, 4)
    pages = [1, 2, 3]
    rows.write(0, pages)
    pages[0] = 7
    rows.write(0, pages)
    assert rows.tables[0, :3].tolist() == [7, 2, 3]
