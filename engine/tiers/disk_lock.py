"""Locks of files, for several processes: `folder_lock` for a moment, `WriterLock` for a life.

A lock ends with the process, however that ends: nothing is left to time out. Knows no index.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from radixchat.engine.tiers.disk_format import LOCK, WRITER

PATIENCE_SECONDS = 5.0


class FolderBusy(Exception):
    """Another process, perhaps a stopped one, has held the folder's lock for long."""


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Alone, of all that would add or remove files. Raises OSError, FolderBusy."""
    path = folder / LOCK
    file = _lock(path)
    while not _is_at(file, path):  # somebody has deleted the folder meanwhile
        os.close(file)
        file = _lock(path)
    try:
        yield
    finally:
        os.close(file)


class WriterLock:
    """Says that a writer lives. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        self.token = secrets.token_hex(8)
        self._path = folder / f"{WRITER}{self.token}"
        self._file = -1
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """It lives no longer; a second time does nothing."""
        file, self._file = self._file, -1
        if file >= 0:
            with suppress(OSError):  # a file that nobody holds says the same
                self._path.unlink()
            os.close(file)


def is_alive(folder: Path, token: str) -> bool:
    """Whether a writer's process runs; the file of one that is gone is removed. Raises OSError."""
    path = folder / f"{WRITER}{token}"
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        path.unlink(missing_ok=True)
        return False
    finally:
        os.close(file)


def _lock(path: Path) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + PATIENCE_SECONDS
    pause = 1e-4
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(file)
                raise FolderBusy(f"{path} is held by another process") from None
            time.sleep(pause)
            pause = min(2 * pause, 0.01)
        except OSError:
            os.close(file)
            raise
        else:
            return file


def _is_at(file: int, path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(file))
