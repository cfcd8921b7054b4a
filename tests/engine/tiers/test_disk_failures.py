"""No room, no permission: the store turns itself off with one warning, and nobody is stopped."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from radixchat.engine.errors import StoreError
from radixchat.engine.tiers.disk_administration import clear
from radixchat.engine.tiers.disk_folder import slot_files
from radixchat.engine.tiers.disk_forgetting import StoredPath, forget_on_disk, namespace_key_id
from radixchat.engine.tiers.disk_format import INDEX
from radixchat.tests.engine.tiers import disk_page
from radixchat.tests.engine.tiers.disk_page import MIB, digest, got, has, make, pages

SECRET = b"a secret of sixteen bytes"
FORGETTABLE = {
    "model": "m",
    "arithmetic": "a",
    "page_size": "16",
    "namespaces": namespace_key_id(SECRET),
}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "radixchat-test", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("nothing may be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(MIB))


def test_a_full_disk(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Off with one warning; every call returns at once, deleting still deletes, nothing is left."""
    store = make(small_disk / "pages", 200 * MIB)  # files of 24 MiB
    assert store.put(pages(1, 2)) == 0
    assert store.problem is not None
    assert "No space left" in store.problem
    for _ in range(3):
        assert store.put(pages(1, 2)) == got(store, 1) == 0
        assert store.exists([digest(1)]) == [False]
        assert list(store.known()) == []
    store.news()
    assert store.stats().problem == store.problem
    store.close()
    assert warnings(caplog) == [store.problem]
    assert not list(small_disk.rglob("*.pages"))


def test_a_disk_that_fills_up_later(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was written before is right, and there again when the disk has room again."""
    store = make(small_disk / "pages", 16 * MIB)  # files of 1.5 MiB
    assert store.put(pages(*range(64))) == 64
    with pytest.raises(OSError, match="No space"):
        fill(small_disk / "other")
    for start in range(64, 400, 16):
        store.put(pages(*range(start, start + 16)))
        has(store, range(64))
    assert store.problem is not None
    store.delete([digest(3)])
    store.close()
    assert warnings(caplog) == [store.problem]
    (small_disk / "other").unlink()
    again = make(small_disk / "pages", 16 * MIB)
    assert set(has(again, range(64))) >= set(range(64)) - {3}
    assert again.put(pages(*range(200, 216))) == 16
    assert again.problem is None
    again.close()


def test_a_file_may_not_grow(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A limit of the process on file sizes is a full disk as well."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, before[1]))
    try:
        store = make(tmp_path / "pages", 64 * MIB)
        assert store.put(pages(1)) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert store.problem is not None
    assert "File too large" in store.problem
    assert store.put(pages(1)) == 0
    store.close()
    assert warnings(caplog) == [store.problem]


# Somebody without privileges, for whom a mode means something, also where root runs the tests.
_OTHER = f"""
import logging, os, sys
from pathlib import Path
from {disk_page.__name__} import *
folder = Path(sys.argv[1])
logging.basicConfig(format="WARN %(message)s", stream=sys.stdout)
if os.geteuid() == 0:
    os.setuid(65534)
if sys.argv[2] == "denied":
    folder.chmod(0)
store = make(folder)
if sys.argv[2] == "lost":
    assert store.put(pages(*range(8))) == 8
    assert got(store, 1) == 1
    for path in [*folder.rglob("*"), folder]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    other = make(folder)
    print("other", other.problem)
    other.close()
for _ in range(3):
    store.put(pages(*range(1000, 1016)))
    got(store, 1)
    store.delete([digest(2)])
    list(store.known())
    store.stats()
store.close()
print("problem", store.problem)
"""


@pytest.mark.parametrize("how", ["denied", "lost"])
def test_no_permission(tmp_path: Path, how: str) -> None:
    """From the start, or taken away later: one warning each, and nothing is raised."""
    place = tmp_path / "pages"
    place.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(place, 65534, 65534)
        for parent in tmp_path.parents:
            if parent.owner() == "root" and str(parent).startswith("/tmp/pytest"):
                parent.chmod(0o755)
        tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", _OTHER, str(place), how], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("WARN")]
    assert len(told) == (1 if how == "denied" else 2), done.stdout
    assert all("Permission denied" in line or "readonly" in line for line in told), told


def test_a_disk_without_any_room(small_disk: Path) -> None:
    """What cannot be deleted is said to be still there; all of it can be cleared."""
    folder = small_disk / "pages"
    store = make(folder, 11 * MIB, fingerprint=FORGETTABLE)
    store.put(pages(1, 2))
    store.close()
    with contextlib.suppress(OSError):
        fill(small_disk / "full")
    with pytest.raises(StoreError, match="cannot delete from"):
        forget_on_disk(folder, SECRET, "somebody", [StoredPath([1] * 64, 0)])
    assert list(slot_files(folder))
    assert clear(folder).bytes > 0
    assert not list(slot_files(folder))
    assert forget_on_disk(folder, SECRET, "somebody", [StoredPath([1] * 64, 0)]) == 0


def test_a_deletion_that_is_kept_waiting_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion that was not done is not taken for one that was."""
    monkeypatch.setattr("radixchat.engine.tiers.disk_index.BUSY_SECONDS", 0.1)
    folder = tmp_path / "pages"
    make(folder, fingerprint=FORGETTABLE).close()
    store = make(folder, fingerprint=FORGETTABLE)
    store.put(pages(1))
    with contextlib.closing(sqlite3.connect(folder / INDEX, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="cannot delete from"):
            forget_on_disk(folder, SECRET, "somebody", [StoredPath([1] * 64, 0)])
    assert got(store, 1) == 1
    assert forget_on_disk(folder, SECRET, "somebody", [StoredPath([1] * 64, 0)]) == 0
    store.close()


def test_an_index_that_is_locked_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process' endless transaction is waited for a while, and is no reason to turn off."""
    monkeypatch.setattr("radixchat.engine.tiers.disk_index.BUSY_SECONDS", 0.1)
    store = make(tmp_path / "pages")
    store.put(pages(1))
    db = sqlite3.connect(tmp_path / "pages" / INDEX, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    assert store.put(pages(2)) == 0
    assert got(store, 1) == 1
    db.execute("ROLLBACK")
    db.close()
    assert store.put(pages(2)) == 1
    assert store.stats().misses == {"busy": 1}
    store.close()
