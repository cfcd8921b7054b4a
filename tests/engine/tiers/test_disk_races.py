"""What another process does in the worst moment: between a write, a read, and the index."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from radixchat.engine.tiers.disk_folder import bytes_on_disk, slot_files
from radixchat.engine.tiers.disk_slots import SlotFile, create_slot_file, remove_slot_file
from radixchat.tests.engine.tiers.disk_page import MIB, digest, got, has, make, pages, size

QUOTA = 8 * MIB


def after(patch: pytest.MonkeyPatch, name: str, call: Callable[[], object]) -> None:
    """Call something once, right after a slot file's method of that name."""
    real = getattr(SlotFile, name)

    def method(self: SlotFile, *arguments: object) -> object:
        result = real(self, *arguments)
        patch.undo()
        call()
        return result

    patch.setattr(SlotFile, name, method)


def test_deleted_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not come back with the index's last word, and does not count as written."""
    store, other = make(tmp_path / "p"), make(tmp_path / "p")
    after(monkeypatch, "flush", lambda: other.delete([digest(2)]))
    assert store.put(pages(1, 2, 3)) == 1
    assert has(other, range(4)) == [1, 3]
    assert other.put(pages(2)) == got(store, 2) == 1
    store.close()
    other.close()


def test_deleted_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once another process has deleted it, it is not served."""
    store, other = make(tmp_path / "p"), make(tmp_path / "p")
    store.put(pages(1, 2, 3))
    after(monkeypatch, "read", lambda: other.delete([digest(1)]))
    assert got(store, 1, 2, 3) == 0
    assert store.stats().misses == {"gone": 1}
    assert has(store, range(4)) == [2, 3]
    store.close()
    other.close()


def test_its_slot_is_another_pages_by_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that made room between index and read is gone, and the other one stays."""
    store, other = make(tmp_path / "p", QUOTA), make(tmp_path / "p", QUOTA)
    store.put(pages(0))
    after(
        monkeypatch,
        "read",
        lambda: [other.put(pages(*range(n, n + 16))) for n in range(16, 800, 16)],
    )
    assert got(store, 0) == 0
    assert store.stats().misses == {"gone": 1}
    assert got(store, 799) == 1
    store.close()
    other.close()


def test_two_write_the_same_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are told it is there; it is there once, and the other slot is free."""
    store, other = make(tmp_path / "p", QUOTA), make(tmp_path / "p", QUOTA)
    after(monkeypatch, "flush", lambda: other.put(pages(1, 2)))
    assert store.put(pages(1, 2, 3)) == 3
    assert size(store) == 3
    for number in range(100, 900, 16):
        store.put(pages(*range(number, number + 16)))
    assert size(store) == sum(path.stat().st_size // 12_288 for path in slot_files(tmp_path / "p"))
    store.close()
    other.close()


def test_what_is_used_now_stays(tmp_path: Path) -> None:
    """Reading counts at once: what was read a moment ago does not make room."""
    store = make(tmp_path / "p", QUOTA)
    for number in range(0, 960, 16):
        store.put(pages(*range(number, number + 16)))
        assert got(store, *range(16)) == 16
    store.close()


def test_killed_between_write_and_index(tmp_path: Path) -> None:
    """The pages are not there; their slots are free for the next, whoever is open already."""
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from radixchat.engine.tiers.disk_slots import SlotFile\n"
        "from radixchat.tests.engine.tiers.disk_page import *\n"
        "SlotFile.flush = lambda self: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"make(Path(sys.argv[1]), {QUOTA}).put(pages(*range(16)))\n"
    )
    store = make(tmp_path / "p", QUOTA)
    store.put(pages(100))
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "p")])
    assert done.returncode == -signal.SIGKILL
    assert has(store, range(16)) == []
    for number in range(1000, 1800, 16):
        assert store.put(pages(*range(number, number + 16))) == 16
    assert size(store) == sum(path.stat().st_size // 12_288 for path in slot_files(tmp_path / "p"))
    store.close()


def test_files_that_no_row_names(tmp_path: Path) -> None:
    """What a process left that was killed while it made a file counts, and makes room."""
    store = make(tmp_path / "p", QUOTA)
    store.put(pages(*range(16)))
    (path,) = slot_files(tmp_path / "p")
    create_slot_file(path.with_name("0123456789abcdef.pages"), 3 * MIB)
    for number in range(100, 900, 16):
        assert store.put(pages(*range(number, number + 16))) == 16
        assert bytes_on_disk(tmp_path / "p") <= QUOTA
    assert not path.with_name("0123456789abcdef.pages").exists()
    store.close()


def test_a_removed_file_takes_no_room(tmp_path: Path) -> None:
    """Not even while another process has it open."""
    path = tmp_path / "a.pages"
    create_slot_file(path, MIB)
    with path.open("rb") as file:
        remove_slot_file(path)
        remove_slot_file(path)
        assert os.fstat(file.fileno()).st_blocks == 0


def test_a_second_store_in_a_process_leaves_the_first_its_locks(tmp_path: Path) -> None:
    """Who closes the index elsewhere does not take the log away from one that has it open."""
    folder = tmp_path / "p"
    store = make(folder)
    store.put(pages(1, 2))
    make(folder).close()
    code = (
        "import sys; from pathlib import Path\n"
        "from radixchat.tests.engine.tiers.disk_page import *\n"
        "store = make(Path(sys.argv[1])); store.put(pages(3)); store.close()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    assert (folder / "index.sqlite3-wal").exists()
    store.put(pages(4))
    later = make(folder)
    assert has(later, range(6)) == has(store, range(6)) == [1, 2, 3, 4]
    later.close()
    store.close()
