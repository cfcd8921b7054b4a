"""Whatever became of a file, no wrong page is served, nothing is raised, and writing goes on."""

from __future__ import annotations

import logging
import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from radixchat.engine.tiers.disk_folder import slot_files
from radixchat.engine.tiers.disk_format import APPLICATION_ID, FORMAT, INDEX
from radixchat.engine.tiers.disk_store import DiskStore
from radixchat.tests.engine.tiers.disk_page import MIB, PAGE, digest, got, has, pages
from radixchat.tests.engine.tiers.disk_page import make as make_with

NUMBERS = range(24)
SLOT = 12_288


def make(folder: Path) -> DiskStore:
    return make_with(folder, 8 * MIB)  # a file has 42 slots


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pages"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A folder with pages, as a process leaves it that was killed: its log is not folded in."""
    folder = tmp_path / "written"
    store = make(tmp_path / "live")
    store.put(pages(*NUMBERS))
    shutil.copytree(tmp_path / "live", folder)
    store.close()
    assert (folder / f"{INDEX}-wal").stat().st_size > 10_000
    return folder


def copies(written: Path, folder: Path, count: int) -> Iterator[Path]:
    for _ in range(count):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(written, folder)
        yield folder


def fold(folder: Path) -> None:
    """Write the index's log into it, so that all that matters is there."""
    db = sqlite3.connect(folder / INDEX)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def flip(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (old,) = file.read(1)
        file.seek(place)
        file.write(bytes([old ^ 1 << bit]))


def all_goes_on(store: DiskStore) -> list[int]:
    """Which of the pages it has; every call returns, and it can be written and read again."""
    there = has(store, NUMBERS)
    for number in store.known():
        assert isinstance(number, bytes)
    store.exists([digest(n) for n in NUMBERS])
    store.stats()
    store.news()
    assert store.put(pages(*NUMBERS)) in range(25)  # what was only half there is found now
    store.delete([digest(3)])
    store.put(pages(*NUMBERS))
    assert store.problem is None
    assert not got(store, 99)
    assert len(has(store, NUMBERS)) >= 23
    store.close()
    return there


def test_a_flipped_byte_of_a_page(written: Path, folder: Path) -> None:
    """That page is a miss with a reason, at whichever place; all others are there."""
    random.seed(1)
    (path,) = slot_files(written)
    for copy in copies(written, folder, 8):
        slot = random.choice(NUMBERS)
        place = random.choice([0, 1, PAGE // 2, PAGE - 1, random.randrange(PAGE)])
        flip(folder / path.relative_to(written), slot * SLOT + place, random.randrange(8))
        store = make(copy)
        there = has(store, NUMBERS)
        assert len(there) == 23
        assert store.stats().misses == {"damaged": 1}
        assert not store.exists([digest(n) for n in NUMBERS if n not in there])[0]
        assert store.put(pages(*NUMBERS)) == 24
        assert has(store, NUMBERS) == list(NUMBERS)
        store.close()


@pytest.mark.parametrize("name", [INDEX, f"{INDEX}-wal"])
@pytest.mark.parametrize("while_open", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize("times", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_a_flipped_byte_of_the_index(
    written: Path,
    folder: Path,
    name: str,
    while_open: bool,
    times: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Pages are missing, or all of it begins anew and says why; none is wrong."""
    random.seed(f"{name} {while_open}")
    lost = begun = 0
    for flips in [1, 1, 8, 64] * (times // 4):
        (copy,) = copies(written, folder, 1)
        if name == INDEX:
            fold(copy)
        store = make(copy) if while_open else None
        path = copy / name
        size = path.stat().st_size
        for _ in range(flips if size else 0):
            flip(path, random.randrange(size), random.randrange(8))
        store = store or make(copy)
        lost += len(all_goes_on(store)) < 24
        begun += store.stats().discards
    assert begun == sum("begins anew" in record.message for record in caplog.records)
    if not while_open:
        assert lost, "no flip had any effect"


def test_a_row_that_lies(written: Path, folder: Path) -> None:
    """Anything at all in any column of a row, and in any type."""
    values = [None, -1, 0, 3, 10**12, 2**62, 1.5, "text", b"", b"x" * 16]
    tables = {
        "slots": ["digest", "namespace", "crc", "used", "owner", "fingerprint"],
        "segments": ["name", "slots", "used", "fingerprint"],
        "fingerprints": ["name", "fields", "stored_bytes"],
        "changes": ["digest", "came", "fingerprint"],
    }
    random.seed(2)
    for table, columns in tables.items():
        key = "slot" if table == "slots" else "rowid"
        for column in columns:
            for copy in copies(written, folder, 1):
                db = sqlite3.connect(copy / INDEX)
                some = "TRUE" if random.random() < 0.5 else f"{key} % 2 = 0"
                db.execute(
                    f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {some}",
                    [random.choice(values)],
                )
                db.commit()
                db.close()
                store = make(copy)
                has(store, NUMBERS)
                list(store.known())
                store.put(pages(*NUMBERS))
                store.delete([digest(n) for n in NUMBERS])
                assert not has(store, NUMBERS)
                assert store.put(pages(*NUMBERS)) in range(25)
                has(store, NUMBERS)
                store.close()


@pytest.mark.parametrize("length", [0, 1, 100, SLOT * 5 + 7])
def test_a_file_that_was_cut_short(written: Path, folder: Path, length: int) -> None:
    """Its pages up to there are served, and its slots are used again."""
    for copy in copies(written, folder, 1):
        (path,) = slot_files(copy)
        os.truncate(path, length)
        store = make(copy)
        assert len(has(store, NUMBERS)) == length // SLOT
        assert store.stats().misses == {"cut short": 24 - length // SLOT}
        assert store.put(pages(*NUMBERS)) == 24
        assert has(store, NUMBERS) == list(NUMBERS)
        store.close()


@pytest.mark.parametrize("name", [INDEX, f"{INDEX}-wal"])
@pytest.mark.parametrize("length", [0, 1, 99, 4096, 5000, 20_000])
def test_an_index_that_was_cut_short(written: Path, folder: Path, name: str, length: int) -> None:
    """What is left of it, or nothing; no wrong page."""
    for copy in copies(written, folder, 1):
        if name == INDEX:
            fold(copy)
        os.truncate(copy / name, min(length, (copy / name).stat().st_size))
        all_goes_on(make(copy))


@pytest.mark.parametrize("what", ["segment", "folder", "index", "all"])
def test_files_that_are_deleted_while_they_are_used(folder: Path, what: str) -> None:
    """Two stores have it open; both go on, and share what they write from then on."""
    first, second = make(folder), make(folder)
    first.put(pages(*NUMBERS))
    assert len(has(second, NUMBERS)) == 24
    if what == "all":
        shutil.rmtree(folder)
    elif what == "index":
        (folder / INDEX).unlink()
    else:
        (path,) = slot_files(folder)
        path.unlink() if what == "segment" else shutil.rmtree(path.parent)
    for store in (first, second):
        has(store, NUMBERS)
        store.put(pages(*NUMBERS))
    assert first.put(pages(100)) == second.put(pages(101)) == 1
    for store in (first, second):
        assert has(store, range(100, 102)) == [100, 101]
        assert store.problem is None
        store.close()


def test_a_newer_format_is_left_alone(
    written: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The store is off and says why, once; not a byte is changed."""
    with sqlite3.connect(written / INDEX) as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    db.close()
    before = {path: path.read_bytes() for path in written.rglob("*.*")}
    store = make(written)
    assert store.problem is not None
    assert f"format {FORMAT + 1}" in store.problem
    assert store.put(pages(1)) == store.delete([digest(1)]) == got(store, 1) == 0
    assert list(store.known()) == []
    assert store.stats().problem == store.problem
    store.close()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert {path: path.read_bytes() for path in written.rglob("*.*")} == before


def test_another_programs_database_makes_room(written: Path) -> None:
    """In a folder that is ours, what is no index of ours is begun anew."""
    with sqlite3.connect(written / INDEX) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID + 1}")
    db.close()
    store = make(written)
    assert store.stats().discards == 1
    assert all_goes_on(store) == []


def test_what_is_damaged_again_and_again_is_left(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A third time turns the store off."""
    store = make(folder)
    for _ in range(4):
        store.put(pages(*NUMBERS))
        if store.problem is None:
            with sqlite3.connect(folder / INDEX) as db:
                db.execute("DROP TABLE slots")
            db.close()
        assert has(store, NUMBERS) == []
    assert store.problem is not None
    assert "again and again" in store.problem
    assert sum("begins anew" in record.message for record in caplog.records) == 3
    store.close()
