"""Processes that are killed while they write leave a folder of which every page is right."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from radixchat.engine.tiers.disk_administration import verify
from radixchat.engine.tiers.disk_folder import bytes_on_disk, slot_files
from radixchat.engine.tiers.disk_format import INDEX, WRITER
from radixchat.tests.engine.tiers.disk_page import MIB, PAGE, digest, got, make, pages, size

QUOTA = 8 * MIB
MODULE = "radixchat.tests.engine.tiers.disk_process"


def writer(folder: Path, first: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", MODULE, "write", str(folder), str(QUOTA), str(first)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def told(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    return [int(number) for number in process.stdout.readline().split()]


def kill(process: subprocess.Popen[str]) -> list[int]:
    """The last that it told."""
    process.send_signal(signal.SIGKILL)
    output, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    lines = [line.split() for line in output.splitlines(keepends=True) if line.endswith("\n")]
    return [int(number) for number in lines[-1]] if lines else []


def claimed(folder: Path) -> int:
    """Slots that were being written."""
    db = sqlite3.connect(folder / INDEX)
    (count,) = db.execute("SELECT count(*) FROM slots WHERE owner IS NOT NULL").fetchone()
    db.close()
    return int(count)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_fifty_times(tmp_path: Path) -> None:
    """At random points, one or two at a time, with pages making room: what was told is there.

    No slot is lost, no file is left over, and the quota holds.
    """
    random.seed(3)
    folder = tmp_path / "pages"
    first = in_the_middle = 0
    for turn in range(50):
        both = [writer(folder, first + 8 * index) for index in range(1 + turn % 2)]
        last = [told(process) for process in both]
        time.sleep(random.random() * 0.05)
        last = [
            kill(process) or told_before for process, told_before in zip(both, last, strict=True)
        ]
        in_the_middle += claimed(folder) > 0
        store = make(folder, QUOTA)
        assert store.problem is None
        for start, count in last:
            assert count == 16
            assert got(store, *range(start, start + 16)) == 16
        kept = set(store.known())
        end = max(start for start, _ in last) + 64
        numbers = [number for number in range(end) if digest(number) in kept]
        assert len(numbers) == len(kept)
        assert [n for n in numbers if got(store, n)] == numbers
        stats = store.stats()
        assert not stats.misses
        assert stats.discards == 0
        assert bytes_on_disk(folder) <= QUOTA
        store.close()
        assert not list(folder.glob(f"{WRITER}*"))
        first = end
    assert in_the_middle > 10
    assert verify(folder).damaged == {}
    store = make(folder, QUOTA)
    for start in range(10**6, 10**6 + 800, 16):
        assert store.put(pages(*range(start, start + 16))) == 16
    slots = sum(path.stat().st_size // 12_288 for path in slot_files(folder))
    assert size(store) == slots  # none is claimed by the dead
    store.close()


def test_a_killed_writer_leaves_its_pages(tmp_path: Path) -> None:
    """Once, for the fast suite; a living process takes over the slots it had claimed."""
    folder = tmp_path / "pages"
    store = make(folder, QUOTA)
    process = writer(folder, 0)
    assert told(process) == [0, 16]
    start, _ = kill(process) or (0, 16)
    assert got(store, *range(start, start + 16)) == 16
    for number in range(5000, 5800, 16):
        assert store.put(pages(*range(number, number + 16))) == 16
    slots = sum(path.stat().st_size // 12_288 for path in slot_files(folder))
    assert size(store) == slots
    store.close()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_system_calls_of_a_page(tmp_path: Path) -> None:
    """As the kernel sees it: a positional read for a page, a write for a page, a flush for 16."""
    code = (
        "import sys; from pathlib import Path\n"
        "from radixchat.tests.engine.tiers.disk_page import *\n"
        "store = make(Path(sys.argv[1]))\n"
        "assert store.put(pages(*range(32))) == got(store, *range(32)) == 32\n"
        "store.close()\n"
    )
    trace = tmp_path / "trace"
    calls = "trace=read,pread64,readv,preadv,preadv2,write,pwrite64,pwritev,fdatasync"
    command = ["strace", "-f", "-y", "-o", str(trace), "-e", calls, sys.executable, "-c", code]
    done = subprocess.run([*command, str(tmp_path / "p")], capture_output=True, text=True)
    if "Operation not permitted" in done.stderr:
        pytest.skip("nothing may be traced here")
    assert done.returncode == 0, done.stderr
    lines = [line for line in trace.read_text().splitlines() if ".pages>" in line]
    reads = [line for line in lines if "read" in line.split("(")[0]]
    writes = [line for line in lines if "write" in line.split("(")[0]]
    assert len(reads) == len(writes) == 32
    assert all(line.endswith(f"= {PAGE}") for line in reads + writes)
    assert sum("fdatasync" in line for line in lines) == 2
