"""`PageWriter`: pages get into a store in the order of what was said, or not, and nothing waits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from radixchat.engine.tiers import page_writer
from radixchat.engine.tiers.memory_store import MemoryStore
from radixchat.engine.tiers.page_store import StoredPage
from radixchat.engine.tiers.page_writer import BATCH, PageWriter
from radixchat.radix.tiers import Tier, TierMarks

SIZE = 64


class GatedStore(MemoryStore):
    """One that takes pages only once it may; `takes` of each batch at most."""

    def __init__(self, page_bytes: int) -> None:
        super().__init__(page_bytes)
        self.may = True
        self.takes = 1000
        self.batches: list[int] = []

    def put(self, pages: Sequence[StoredPage], deadline: float | None = None) -> int:
        """MemoryStore.put."""
        until = time.monotonic() + 30
        while not self.may:
            assert time.monotonic() < until
            time.sleep(0.001)
        self.batches.append(len(pages))
        return super().put(pages[: self.takes], deadline)


class Scene:
    """A writer, its store and its marks; `told` counts the news."""

    def __init__(self, page_bytes: int = SIZE) -> None:
        self.store = GatedStore(page_bytes)
        self.marks = TierMarks(16)
        self.told = 0
        self.writer = PageWriter(self.store, Tier.DISK, self.marks, self._tell)

    def _tell(self) -> None:
        self.told += 1

    def put(self, *numbers: int, namespace: bytes = b"") -> None:
        for number in numbers:
            row = np.full(self.store.page_bytes, number % 256, np.uint8)
            self.writer.put(name(number), namespace, row)

    def settle(self) -> None:
        self.store.may = True
        self.writer.send()
        until = time.monotonic() + 30
        while not self.writer.is_idle:
            assert time.monotonic() < until
            self.writer.wait(until)
            self.writer.collect()

    def marked(self, *numbers: int) -> list[bool]:
        return [self.marks.has(name(number), Tier.DISK) for number in numbers]


def name(number: int) -> bytes:
    return b"%16d" % number


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.store.may = True
    made.writer.close()


def test_pages_are_written_in_batches_and_then_marked(scene: Scene) -> None:
    """A full batch at once, the rest when it is sent; nothing is marked before it is there."""
    scene.store.may = False
    scene.put(*range(BATCH + 3))
    assert scene.marked(0) == [False]
    assert not scene.writer.wants(name(0)), "it is on its way"
    assert scene.writer.wants(name(99))
    scene.settle()
    assert scene.store.batches == [BATCH, 3]
    assert all(scene.marked(*range(BATCH + 3)))
    assert not scene.writer.wants(name(0)), "it is there"
    assert scene.writer.written == BATCH + 3
    assert scene.told == 2
    assert scene.store.pages[name(5)] == (b"", bytes([5] * SIZE))


def test_what_the_store_did_not_take_is_wanted_again(scene: Scene) -> None:
    """Only the first so many of a batch are there."""
    scene.store.takes = 2
    scene.put(1, 2, 3)
    scene.settle()
    assert scene.marked(1, 2, 3) == [True, True, False]
    assert scene.writer.wants(name(3))
    scene.put(3)
    scene.settle()
    assert scene.marked(3) == [True]


def test_what_is_deleted_while_it_is_on_its_way_is_not_there(scene: Scene) -> None:
    """Neither of what waits to be sent nor of what is being written, and no mark comes later."""
    scene.store.may = False
    scene.put(1, 2)
    scene.writer.send()
    scene.put(3, 4)
    scene.writer.delete([name(1), name(3)])
    scene.settle()
    assert set(scene.store.pages) == {name(2), name(4)}
    assert scene.marked(1, 2, 3, 4) == [False, True, False, True]
    scene.put(1)
    scene.settle()
    assert scene.marked(1) == [True], "it may come again"


def test_a_namespace_is_forgotten_on_its_way(scene: Scene) -> None:
    """Those of another are not; and then all are."""
    scene.store.may = False
    scene.put(1, namespace=b"a")
    scene.writer.send()
    scene.put(2, namespace=b"a")
    scene.put(3, namespace=b"b")
    scene.writer.forget(b"a")
    scene.settle()
    assert set(scene.store.pages) == {name(3)}
    scene.store.may = False
    scene.put(4, namespace=b"c")
    scene.writer.forget(None)
    scene.settle()
    assert not scene.store.pages
    assert scene.marked(2, 4) == [False, False]


def test_what_waits_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What finds no room is lost to the store; when some are written there is room again."""
    monkeypatch.setattr(page_writer, "MAX_WAITING_BYTES", 4 * SIZE)
    scene.store.may = False
    scene.put(*range(6))
    assert scene.writer.lost == 2
    assert not scene.writer.has_room
    assert scene.writer.wants(name(5))
    scene.settle()
    assert scene.writer.has_room
    assert set(scene.store.pages) == {name(n) for n in range(4)}


def test_pages_that_are_large_are_sent_before_there_is_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where fewer than a batch may wait, they go when no more may: else nothing ever would."""
    monkeypatch.setattr(page_writer, "MAX_WAITING_BYTES", 2 * SIZE)
    scene = Scene()
    scene.put(1, 2)
    until = time.monotonic() + 30
    while not scene.writer.has_room:
        assert time.monotonic() < until
        scene.writer.collect()
    assert scene.marked(1, 2) == [True, True]
    scene.writer.close()


def test_a_store_that_has_turned_itself_off_wants_nothing(scene: Scene) -> None:
    """So nobody copies a page for it."""
    assert scene.writer.wants(name(1))
    scene.store.problem = "the disk is full"
    assert not scene.writer.wants(name(1))


def test_closing_gives_up_what_waits(scene: Scene) -> None:
    """The write that runs ends first; waiting for a write ends when its time has come."""
    scene.store.may = False
    scene.put(*range(BATCH))
    began = time.monotonic()
    scene.writer.wait(began + 0.02)
    assert not scene.writer.is_idle
    assert time.monotonic() - began < 10


def test_closing_does_not_give_up_what_is_to_be_deleted() -> None:
    """However much was still to be written before: that is given up."""
    scene = Scene()
    scene.put(*range(BATCH))
    scene.settle()
    scene.store.may = False
    scene.put(*range(BATCH, 3 * BATCH))
    scene.writer.delete([name(3)])
    scene.store.may = True
    scene.writer.close()
    assert name(3) not in scene.store.pages
