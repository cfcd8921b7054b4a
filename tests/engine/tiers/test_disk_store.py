"""Pages on disk come back as they were; one read a page; the least recently used make room."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.engine.errors import ConfigError
from radixchat.engine.tiers.disk_administration import clear
from radixchat.engine.tiers.disk_folder import bytes_on_disk, slot_files
from radixchat.engine.tiers.disk_format import min_quota, slot_bytes
from radixchat.engine.tiers.disk_store import DiskStore
from radixchat.engine.tiers.page_store import PageStore, StoredPage
from radixchat.tests.engine.tiers import disk_process
from radixchat.tests.engine.tiers.disk_page import (
    MIB,
    PAGE,
    body,
    digest,
    got,
    has,
    make,
    page,
    size,
)
from radixchat.tests.engine.tiers.disk_page import pages as numbered

# Room for a few hundred pages.
SMALL = 8 * MIB


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pages"


@contextmanager
def opened(folder: Path, quota: int = 64 * MIB, **changes: object) -> Iterator[DiskStore]:
    store = make(folder, quota, **changes)
    yield store
    store.close()


def news(store: DiskStore) -> tuple[set[bytes], set[bytes]]:
    """What it tells within three seconds."""
    came: set[bytes] = set()
    went: set[bytes] = set()
    deadline = time.monotonic() + 3
    while not came and not went and time.monotonic() < deadline:
        for known, told in zip((came, went), store.news(), strict=True):
            known.update(told)
        time.sleep(0.02)
    return came, went


def test_pages_come_back_as_they_were(folder: Path) -> None:
    """Also after a restart; what was never there is a miss, and ends what is read."""
    store = make(folder)
    is_a_store: PageStore = store
    assert is_a_store.put(numbered(*range(40))) == 40
    assert got(store, *range(40)) == 40
    assert got(store, 0, 1, 99, 2) == 2
    assert store.exists([digest(3), digest(99)]) == [True, False]
    store.close()
    with opened(folder) as again:
        assert set(again.known()) == {digest(n) for n in range(40)}
        assert got(again, *range(40)) == 40
        stats = again.stats()
        assert (stats.pages, stats.hits, stats.written) == (40, 40, 0)
        assert stats.problem is None


@settings(max_examples=12)
@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "delete", "get", "reopen"]), st.integers(0, 30)),
        max_size=25,
    )
)
def test_it_is_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """With room for all, it has what was put and not deleted, whatever the order."""
    folder = tmp_path_factory.mktemp("any") / "pages"
    store, there = make(folder), set[int]()
    for step, number in steps:
        batch = range(number, number + 4)
        if step == "put":
            assert store.put(numbered(*batch)) == 4
            there.update(batch)
        elif step == "delete":
            count = store.delete([digest(n) for n in batch])
            assert count == len(there & set(batch))
            there.difference_update(batch)
        elif step == "get":
            assert has(store, batch) == [n for n in batch if n in there]
        else:
            store.close()
            store = make(folder)
        assert set(store.known()) == {digest(n) for n in there}
    store.close()


def test_one_read_a_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is one positional read of its whole length, and no other read touches its file."""
    with opened(folder) as store:
        store.put(numbered(*range(20)))
        reads: list[tuple[int, int]] = []
        real = os.preadv

        def counted(file: int, buffers: list[memoryview], offset: int) -> int:
            reads.append((offset, sum(buffer.nbytes for buffer in buffers)))
            return real(file, buffers, offset)

        monkeypatch.setattr(os, "preadv", counted)
        assert got(store, *range(20)) == 20
    assert len({offset for offset, _ in reads}) == len(reads) == 20
    assert {size for _, size in reads} == {PAGE}
    assert all(offset % 4096 == 0 for offset, _ in reads)


def test_a_late_page_is_not_waited_for(folder: Path) -> None:
    """Past the deadline nothing is read, and nothing written."""
    with opened(folder) as store:
        late = time.monotonic() - 1
        assert store.put(numbered(0), late) == 0
        assert store.put(numbered(1, 2)) == 2
        assert store.get([digest(1)], [memoryview(bytearray(PAGE))], late) == 0
        assert store.stats().misses == {"late": 1}
        assert has(store, range(3)) == [1, 2]


def test_the_least_recently_used_leave(folder: Path) -> None:
    """What was read lately stays, across a restart too; of a prefix the end leaves first."""
    with opened(folder, SMALL) as store:
        number = 0
        while size(store) == number:  # until one has made room
            store.put(numbered(*range(number, number + 16)))
            number += 16
        capacity = size(store)
        assert 200 < capacity < number <= capacity + 16
        assert got(store, *range(32, 48)) == 16
    with opened(folder, SMALL) as store:
        store.put(numbered(*range(1000, 1000 + capacity - 8)))
        assert has(store, range(number)) == list(range(32, 40))


def test_fingerprints_share_a_quota(folder: Path) -> None:
    """Each sees its own pages only; the one not used for long gives up its files, oldest first."""
    with opened(folder, SMALL) as first:
        first.put(numbered(*range(100)))
    other = {"model": "other"}
    with opened(folder, SMALL, fingerprint=other, page_bytes=2 * PAGE) as second:
        assert has(second, range(100)) == []
        assert second.put([page(n, size=2 * PAGE) for n in range(40)]) == 40
    with opened(folder, SMALL) as first:
        assert has(first, range(100)) == list(range(100))  # both have room
    with opened(folder, SMALL, fingerprint=other, page_bytes=2 * PAGE) as second:
        for start in range(0, 400, 16):
            assert second.put([page(n, size=2 * PAGE) for n in range(start, start + 16)]) == 16
        assert size(second) > 100
    with opened(folder, SMALL) as first:
        assert has(first, range(100)) == []
        assert bytes_on_disk(folder) <= SMALL


def test_a_smaller_quota_holds_at_once(folder: Path) -> None:
    """Opened with less, a folder shrinks."""
    with opened(folder, 40 * MIB) as store:
        for start in range(0, 2000, 16):
            store.put(numbered(*range(start, start + 16)))
        assert 20 * MIB < bytes_on_disk(folder) <= 40 * MIB
    with opened(folder, 20 * MIB) as store:
        assert bytes_on_disk(folder) <= 20 * MIB
        assert has(store, range(1980, 2000)) == list(range(1980, 2000))


def test_a_quota_without_room_is_refused(folder: Path) -> None:
    """The message says what would do, and that does."""
    needed = min_quota(slot_bytes(PAGE))
    with pytest.raises(ConfigError, match=f"{needed - 1} bytes.* need {needed}"):
        make(folder, needed - 1)
    with opened(folder, needed) as store:
        assert store.put(numbered(*range(20))) > 0
        assert bytes_on_disk(folder) <= needed


def test_only_its_owner_may_read_it(folder: Path) -> None:
    """The folders are 0700 and the files 0600, whatever the umask says."""
    before = os.umask(0)
    try:
        with opened(folder) as store:
            store.put(numbered(1))
            paths = [folder, *folder.rglob("*")]
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in paths}
            expected = {p.name: 0o700 if p.is_dir() else 0o600 for p in paths}
    finally:
        os.umask(before)
    assert len(modes) >= 8
    assert modes == expected


def test_what_is_deleted_is_erased(folder: Path) -> None:
    """A deleted page is a miss, and its bytes are nowhere in the folder any more."""
    with opened(folder) as store:
        store.put(numbered(*range(10)))
        assert store.delete([digest(2), digest(3), digest(77)]) == 2
        assert store.delete([digest(2)]) == 0
        assert has(store, range(10)) == [0, 1, *range(4, 10)]
        content = b"".join(path.read_bytes() for path in slot_files(folder))
        assert body(1) in content
        assert body(2) not in content
        assert body(3) not in content


def test_a_namespace_is_forgotten(folder: Path) -> None:
    """All pages of one, at every fingerprint; then all of this fingerprint, and their room."""
    with opened(folder) as store, opened(folder, fingerprint={"model": "b"}) as other:
        store.put([page(n, b"ab"[n % 2 : n % 2 + 1]) for n in range(600)])
        other.put([page(n) for n in range(10)])
        assert store.forget(b"a") == 310
        assert has(store, range(10)) == [1, 3, 5, 7, 9]
        assert has(other, range(10)) == []
        other.put(numbered(1))
        before = bytes_on_disk(folder)
        assert store.forget(None) == 300
        assert bytes_on_disk(folder) < before
        assert has(store, range(600)) == []
        assert has(other, range(10)) == [1]


def test_news_tells_what_another_process_did(folder: Path) -> None:
    """What came and went, its own too; looked up on another thread, once a second."""
    with opened(folder) as store, opened(folder) as other:
        store.put(numbered(1))
        other.put(numbered(2, 3))
        other.delete([digest(3)])
        assert news(store) == ({digest(1), digest(2)}, {digest(3)})
        assert got(store, 2) == 1
        other.put(numbered(3))
        store.delete([digest(1)])
        assert news(store) == ({digest(3)}, {digest(1)})
        assert store.news() == ([], [])
        began = time.perf_counter()
        for _ in range(1000):
            store.news()
            store.stats()
        assert time.perf_counter() - began < 0.5


def test_who_falls_behind_catches_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More changes than the log keeps are compared by name."""
    monkeypatch.setattr("radixchat.engine.tiers.disk_rows.CHANGES_KEPT", 20)
    with opened(folder) as store, opened(folder) as other:
        store.put(numbered(*range(10)))
        assert news(store)[0] == {digest(n) for n in range(10)}
        other.delete([digest(n) for n in range(8)])
        other.put(numbered(*range(20, 120)))
        assert news(store) == (
            {digest(n) for n in range(20, 120)},
            {digest(n) for n in range(8)},
        )


def test_two_stores_write_the_same_page(folder: Path) -> None:
    """It is kept once, and both have it."""
    with opened(folder) as store, opened(folder) as other:
        assert store.put(numbered(1, 2)) == 2
        assert other.put(numbered(2, 3)) == 2
        assert store.put([*numbered(4, 4, 5)]) == 3
        assert has(store, range(7)) == has(other, range(7)) == [1, 2, 3, 4, 5]
        assert size(store) == 5
        assert other.stats().written == 1


def processes(*arguments: tuple[object, ...]) -> list[list[int]]:
    """What child processes of disk_process print as numbers, run at the same time."""
    command = [sys.executable, "-m", disk_process.__name__]
    running = [
        subprocess.Popen([*command, *map(str, row)], stdout=subprocess.PIPE, text=True)
        for row in arguments
    ]
    return [list(map(int, process.communicate()[0].split())) for process in running]


def test_the_quota_holds_at_every_moment(folder: Path) -> None:
    """Three processes write three times what it admits; each looks after every allocation."""
    results = processes(*(("fill", folder, SMALL, first, 320) for first in (0, 200, 5000)))
    for done, most in results:
        assert done == 320
        assert 2 * MIB < most <= SMALL
    with opened(folder, SMALL) as store:
        kept = set(store.known())
        assert len(kept) > 200
        numbers = [n for n in (*range(520), *range(5000, 5320)) if digest(n) in kept]
        assert len(numbers) == len(kept)
        assert [n for n in numbers if got(store, n)] == numbers


def test_deleted_and_cleared_while_another_process_reads(folder: Path) -> None:
    """It has misses, and no wrong page, and goes on; what comes again is read again."""
    with opened(folder, SMALL) as store:
        store.put(numbered(*range(64)))
        command = [sys.executable, "-m", disk_process.__name__, "read", folder, SMALL, 64]
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        for turn in range(12):
            if turn % 3 == 0:
                assert store.delete([digest(n) for n in range(turn, 64, 2)]) == 32 - turn // 2
            elif turn % 3 == 1:
                assert store.forget(b"a") == 64
            else:
                assert clear(folder).pages == 64
            assert has(store, range(turn, 64, 2)) == []
            assert store.put(numbered(*range(64))) == 64
        output, _ = process.communicate()
        assert process.returncode == 0
        hits, rounds = map(int, output.split())
        assert 0 < hits <= rounds * 288


def test_a_hundred_thousand_pages_stay_quick(folder: Path) -> None:
    """The index opens, finds and is counted in less than half a second."""
    tiny = {"page_bytes": 64}
    with opened(folder, 1024 * MIB, **tiny) as store:
        batch = [StoredPage(digest(n), b"a", memoryview(bytes(64))) for n in range(48)]
        assert store.put(batch) == 48
    with sqlite3.connect(folder / "index.sqlite3") as db:
        db.executemany(
            "INSERT INTO slots VALUES (1, ?, 1, ?, ?, 7, ?, NULL)",
            [(n, digest(n), b"a" * 32, n) for n in range(20_000, 120_000)],
        )
    db.close()
    began = time.process_time()  # others may work on this machine
    store = make(folder, 1024 * MIB, **tiny)
    took = time.process_time() - began
    assert len(list(store.known())) == 100_048
    assert took < 0.5
    began = time.process_time()
    assert store.get([digest(5)], [memoryview(bytearray(64))]) == 1
    assert store.put([StoredPage(digest(1 << 40), b"a", memoryview(bytes(64)))]) == 1
    assert store.stats().pages == 100_048
    assert time.process_time() - began < 0.1
    store.close()


def test_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    """A folder with something else in it stays as it is, and so does a file."""
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match=r"holds something else \(letter.txt\)"):
        make(tmp_path)
    with pytest.raises(ConfigError, match="is a file"):
        make(tmp_path / "letter.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
