"""`SlotFile`: a file of slots of one size, each read and written whole, at its place.

Knows no page's name and not which slots are in use.
"""

from __future__ import annotations

import os
from pathlib import Path

# Where a system has no fdatasync, what does more.
flush_data = getattr(os, "fdatasync", os.fsync)


class SlotFile:
    """Open for reading and writing. Every call raises OSError.

    It is closed with its last reference: whoever reads it elsewhere at this moment has one, and
    never the descriptor of another file under the same number.
    """

    def __init__(self, path: Path, slot_bytes: int) -> None:
        self.slot_bytes = slot_bytes
        self._file = -1
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)

    def read(self, slot: int, into: memoryview) -> int:
        """Fill `into` from a slot's start, in one read; how many bytes there were."""
        return os.preadv(self._file, [into], slot * self.slot_bytes)

    def write(self, slot: int, data: memoryview) -> None:
        """Write a slot from its start; `flush` makes it durable."""
        assert data.nbytes <= self.slot_bytes, "a slot's page does not reach into the next"
        offset, done = slot * self.slot_bytes, 0
        while done < data.nbytes:
            done += os.pwrite(self._file, data[done:], offset + done)

    def flush(self) -> None:
        """Wait until what was written is on the disk."""
        flush_data(self._file)


def create_slot_file(path: Path, num_bytes: int) -> None:
    """A new file (0600) whose bytes are all there already. Raises OSError and leaves none."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, num_bytes)
        else:
            os.ftruncate(file, num_bytes)
        os.fsync(file)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(file)


def remove_slot_file(path: Path) -> None:
    """Give its room back, even while somebody has it open. Raises OSError unless it is gone."""
    try:
        os.truncate(path, 0)
        path.unlink()
    except FileNotFoundError:
        pass
