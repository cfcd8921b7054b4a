"""A folder of pages looked at, verified and cleared from outside, also while it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from radixchat.engine.errors import StoreError
from radixchat.engine.tiers.disk_administration import (
    CacheFolder,
    Cleared,
    Verified,
    clear,
    disk_folders,
    verify,
)
from radixchat.engine.tiers.disk_folder import bytes_on_disk, slot_files
from radixchat.engine.tiers.disk_format import INDEX
from radixchat.tests.engine.tiers.disk_page import FINGERPRINT, has, make, page, pages


def test_what_is_in_a_folder(tmp_path: Path) -> None:
    """Each fingerprint with its fields, pages and last use, that used last first."""
    folder = tmp_path / "p"
    store = make(folder)
    store.put(pages(*range(10)))
    store.close()
    other = make(folder, fingerprint={"model": "b"}, page_bytes=500)
    other.put([page(n, size=500) for n in range(3)])
    for is_open in (True, False):
        found = disk_folders(folder)
        assert found.problem is None
        assert found.bytes == bytes_on_disk(folder)
        assert [kind.pages for kind in found.kinds] == [3, 10]
        assert [kind.fields["model"] for kind in found.kinds] == ["b", "tiny"]
        assert FINGERPRINT.items() <= found.kinds[1].fields.items()
        assert found.kinds[0].used > found.kinds[1].used > 1.6e9
        assert sum(kind.bytes for kind in found.kinds) < found.bytes
        if is_open:
            other.close()


def test_nothing_is_there(tmp_path: Path) -> None:
    """No folder, or an empty one: nothing to tell, and nothing is made."""
    for folder in (tmp_path / "none", tmp_path):
        assert disk_folders(folder) == CacheFolder(folder)
        assert verify(folder) == Verified(0, {})
        assert clear(folder) == Cleared(0, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    """Nothing of somebody else's is looked into or deleted."""
    (tmp_path / INDEX).write_text("mine")
    for call in (disk_folders, verify, clear):
        with pytest.raises(StoreError, match="no folder of radixchat"):
            call(tmp_path)
    assert (tmp_path / INDEX).read_text() == "mine"


def test_damaged_pages_are_found(tmp_path: Path) -> None:
    """Those are removed, with the reason; all others are counted, and progress is told."""
    store = make(tmp_path)
    store.put(pages(*range(20)))
    (path,) = slot_files(tmp_path)
    with path.open("r+b") as file:
        file.seek(12_288 * 3 + 77)
        file.write(b"\x01\x02")
    heard: list[int] = []
    assert verify(tmp_path, heard.append) == Verified(19, {"damaged": 1})
    assert heard == [19]
    assert verify(tmp_path) == Verified(19, {})
    assert len(has(store, range(20))) == 19
    assert store.stats().misses == {"absent": 1}
    path.unlink()
    assert verify(tmp_path) == Verified(0, {"file missing": 19})
    store.close()


def test_an_index_that_is_damaged(tmp_path: Path) -> None:
    """It is told, and clearing helps."""
    store = make(tmp_path)
    store.put(pages(*range(20)))
    store.close()
    (tmp_path / INDEX).write_bytes(b"no index at all" * 1000)
    assert "not a database" in str(disk_folders(tmp_path).problem)
    with pytest.raises(StoreError, match="not a database"):
        verify(tmp_path)
    assert clear(tmp_path).bytes > 0
    assert list(slot_files(tmp_path)) == []
    assert disk_folders(tmp_path).problem is None


def test_cleared_while_it_is_used(tmp_path: Path) -> None:
    """One fingerprint, or all; whoever uses it has misses, and writes anew."""
    store = make(tmp_path)
    other = make(tmp_path, fingerprint={"model": "b"})
    store.put(pages(*range(20)))
    other.put(pages(*range(7)))
    (kind,) = (kind for kind in disk_folders(tmp_path).kinds if kind.pages == 7)
    assert clear(tmp_path, kind.name).pages == 7
    assert has(other, range(7)) == []
    assert len(has(store, range(20))) == 20
    before = bytes_on_disk(tmp_path)
    done = clear(tmp_path)
    assert done.pages == 20
    assert bytes_on_disk(tmp_path) <= before - done.bytes
    assert has(store, range(20)) == []
    assert store.put(pages(1)) == other.put(pages(2)) == 1
    assert has(store, range(3)) == [1]
    for opened in (store, other):
        assert opened.problem is None
        opened.close()


def test_the_command_line_needs_no_torch() -> None:
    """Looking at a folder loads neither torch nor an engine."""
    code = (
        "import sys, radixchat.engine.tiers.disk_administration\n"
        "print({'torch', 'radixchat.engine.engine', 'cryptography'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
