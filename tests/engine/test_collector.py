"""Tests of the collector between steps: when it runs, and that it leaves the process as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from radixchat.engine.collector import STEPS_BETWEEN_YOUNG, GarbageCollector


@pytest.fixture(autouse=True)
def collections() -> Iterator[list[int]]:
    """The generations collected so far; the process's collector is left as it was."""
    seen: list[int] = []

    def watch(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            seen.append(info["generation"])

    gc.callbacks.append(watch)
    yield seen
    gc.callbacks.remove(watch)
    assert gc.isenabled()


def test_collects_between_steps_only(collections: list[int]) -> None:
    """However much is allocated, nothing is collected but the young, every so many steps."""
    with GarbageCollector() as collector:
        collections.clear()
        kept = [[index] for index in range(100_000)]
        assert collections == []
        for _ in range(2 * STEPS_BETWEEN_YOUNG):
            collector.after_step()
        assert collections == [1, 1]
        collector.when_idle()
        assert collections == [1, 1, 2]
        collector.when_idle()
        assert collections == [1, 1, 2, 1], "nothing has happened since"
    assert len(kept) == 100_000


def test_control_collects_at_any_time(collections: list[int]) -> None:
    """Without it the same allocations start collections."""
    kept = [[index] for index in range(100_000)]
    assert collections
    assert len(kept) == 100_000


def test_cycles_are_collected(collections: list[int]) -> None:
    """Garbage that only the collector can see is gone after a while."""

    class Cycle:
        alive = 0

        def __init__(self) -> None:
            self.me = self
            Cycle.alive += 1

        def __del__(self) -> None:
            Cycle.alive -= 1

    with GarbageCollector() as collector:
        for _ in range(3 * STEPS_BETWEEN_YOUNG):
            Cycle()
            collector.after_step()
        assert Cycle.alive < STEPS_BETWEEN_YOUNG + 1


def test_leaves_a_switched_off_collector_alone() -> None:
    """Who has switched the collector off keeps it off; a second one inside changes nothing."""
    with GarbageCollector():
        with GarbageCollector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
