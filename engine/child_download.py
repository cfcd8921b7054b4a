"""A download that another program does: started, watched, and ended with whoever waits for it.

Owns the child process, its log and the staging folder it writes in. Knows neither pip nor the hub.
A child, because it can be watched through the folder it fills and killed at once, whatever threads
and retries of its own it has.

    models/                       root: only whole models have their final names
    ├─ smollm2-135m.gguf
    └─ .staging-smollm2-135m/     locked by the process that fills it; gone when it ends
       ├─ log   what the child says
       ├─ tmp/  the child's TMPDIR, so that its temporary files are on the same disk and are counted
       └─ …     what it fetches
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from radixchat.engine.errors import ModelLoadError

POLL_SECONDS = 0.1
TERMINATE_SECONDS = 3.0
STAGING_PREFIX = ".staging-"

# "ERROR: Exception:" is pip's heading of a traceback, whose last line tells more.
_ERROR_LINE = re.compile(r"ERROR: (?!Exception:)|[\w.]*Error: ")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How a child ended; log is everything it said."""

    exit_code: int
    log: str

    def last_error(self) -> str:
        """The line that tells most: the last of pip's or Python's errors, or the last at all."""
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        errors = [line for line in lines if _ERROR_LINE.match(line)]
        return (errors or lines or [f"it ended with exit code {self.exit_code}"])[-1]


@contextmanager
def staging_folder(root: Path, key: str, watch: Callable[[int], None]) -> Iterator[Path]:
    """A folder below root that this process alone fills; removed at the end, however it ends.

    While another process holds it, waits and reports that one's bytes. What a killed process left
    is still there on entry. The lock is on the folder itself and dies with the process.
    """
    folder = root / f"{STAGING_PREFIX}{key}"
    while (descriptor := _try_lock(folder)) is None:
        watch(folder_bytes(folder))
        time.sleep(POLL_SECONDS)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _try_lock(folder: Path) -> int | None:
    """A descriptor that holds the lock; None when another process has it, or removed the folder."""
    make_private_folder(folder)
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def run_child(
    command: Sequence[str],
    staging: Path,
    environment: Mapping[str, str],
    watch: Callable[[int], None],
) -> ChildResult:
    """Run a command to its end and report the bytes in staging meanwhile.

    environment: what to add to this process's. An exception here ends the child first. A child
    that failed for want of room is an OSError, as if the write had been ours.
    """
    temporary = staging / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(mode=0o700)
    log = staging / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(temporary), **environment},
        )
    try:
        while (exit_code := _poll(process)) is None:
            watch(folder_bytes(staging))
    finally:
        _end(process)
    result = ChildResult(exit_code, log.read_text(errors="replace"))
    for code in _NO_ROOM:
        if exit_code != 0 and f"[Errno {code}]" in result.log:
            raise OSError(code, os.strerror(code))
    return result


def _poll(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(TERMINATE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder, which others may be filling or removing."""
    total = 0
    with suppress(FileNotFoundError):
        for path in folder.rglob("*"):
            with suppress(FileNotFoundError):
                total += path.stat().st_size if path.is_file() else 0
    return total


def check_room(root: Path, needed: int) -> None:
    """Raise ModelLoadError when the disk that holds root has less than `needed` bytes free."""
    free = shutil.disk_usage(root).free
    if free < needed:
        raise ModelLoadError(
            f"fetching needs {needed / 1e6:.0f} MB in {root}, {free / 1e6:.0f} MB are free; make "
            "room, or set RADIXCHAT_CACHE_DIR to a folder on another disk"
        )


def publish(finished: Path, final: Path) -> None:
    """Give a finished file or folder its final name: all of it, or nothing.

    Its contents and the name survive a power cut; an older model of the name is replaced.
    """
    make_private_folder(final.parent)
    if finished.is_dir():
        finished.chmod(0o700)
    for path in [finished, *finished.rglob("*")] if finished.is_dir() else [finished]:
        _sync(path)
    if final.is_dir():
        shutil.rmtree(final)
    finished.replace(final)
    _sync(final.parent)


def make_private_folder(path: Path) -> None:
    """Make a folder and those above it that are not there yet, for this user only."""
    if not path.is_dir():
        make_private_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
