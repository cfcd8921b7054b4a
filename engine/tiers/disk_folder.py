"""A folder of pages as a whole: whether it is ours, made, begun anew.

Knows no fingerprint's content and no quota.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from radixchat.engine.errors import ConfigError
from radixchat.engine.tiers.disk_format import (
    FINGERPRINT_FOLDER,
    INDEX,
    LOCK,
    SLOT_FILE,
    TAG,
    TAG_TEXT,
    WRITER,
)
from radixchat.engine.tiers.disk_lock import is_alive
from radixchat.engine.tiers.disk_slots import remove_slot_file


def prepare_folder(folder: Path) -> None:
    """Make it, or see that it is ours. Raises ConfigError where it is not; OSError."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"the disk cache's folder {folder} is a file: name a folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = {entry.name for entry in os.scandir(folder)}
    if not is_ours(folder) and not names <= {LOCK, TAG}:
        raise ConfigError(
            f"the disk cache's folder {folder} holds something else ({min(names)}):"
            " name an empty one, or one that does not exist"
        )
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def is_ours(folder: Path) -> bool:
    """Whether a folder was made by this program."""
    try:
        return b"radixchat" in (folder / TAG).read_bytes()
    except FileNotFoundError:
        return False


def mark_as_ours(folder: Path) -> None:
    """Say in the folder what it is. Raises OSError."""
    if not is_ours(folder):
        (folder / TAG).write_text(TAG_TEXT, encoding="utf-8")
        (folder / TAG).chmod(0o600)


def discard(folder: Path) -> None:
    """Remove the index and all pages; whoever calls holds the folder's lock. Raises OSError."""
    for name in (INDEX, f"{INDEX}-wal", f"{INDEX}-shm"):
        (folder / name).unlink(missing_ok=True)
    for path in slot_files(folder):
        remove_slot_file(path)
    for path in fingerprint_folders(folder):
        shutil.rmtree(path, ignore_errors=True)
    forget_dead_writers(folder)


def forget_dead_writers(folder: Path) -> None:
    """Remove what processes left that are gone; under the folder's lock. Raises OSError."""
    for path in folder.glob(f"{WRITER}*"):
        is_alive(folder, path.name.removeprefix(WRITER))


def fingerprint_folders(folder: Path) -> Iterator[Path]:
    """The folders of slot files."""
    return (path for path in folder.iterdir() if FINGERPRINT_FOLDER.fullmatch(path.name))


def slot_files(folder: Path) -> Iterator[Path]:
    """All files of slots."""
    return (path for below in fingerprint_folders(folder) for path in below.glob(SLOT_FILE))


def bytes_on_disk(folder: Path) -> int:
    """What all files of it take, allocated or claimed by their length. Raises OSError."""
    total = 0
    for path in (*folder.iterdir(), *slot_files(folder)):
        try:
            stat = path.lstat()
        except FileNotFoundError:  # another process' log, for instance
            continue
        # A folder's own block is not counted twice by its length.
        total += stat.st_blocks * 512 if path.is_dir() else max(stat.st_size, stat.st_blocks * 512)
    return total
