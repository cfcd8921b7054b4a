"""What can be done to a folder of pages from outside: looked at, verified, cleared.

While processes use it, too. Needs no engine, no torch and no key. Knows no command line.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from radixchat.engine.errors import StoreError
from radixchat.engine.tiers.disk_folder import bytes_on_disk, discard, is_ours
from radixchat.engine.tiers.disk_format import (
    INDEX,
    page_name,
    segment_path,
    slot_bytes,
)
from radixchat.engine.tiers.disk_index import FAILURES, DiskIndex, NewerFormat, failure_of
from radixchat.engine.tiers.disk_lock import FolderBusy, folder_lock
from radixchat.engine.tiers.disk_rows import Place, Segment, drop, segments
from radixchat.engine.tiers.disk_seal import checksum
from radixchat.engine.tiers.disk_slots import SlotFile
from radixchat.engine.tiers.disk_space import remove_segment


@dataclass(frozen=True, slots=True)
class PageKind:
    """Pages of one fingerprint. bytes: its files'; used: last, in seconds since the epoch."""

    name: str
    fields: Mapping[str, str]
    pages: int
    bytes: int
    used: float


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """A folder of pages, most recently used kinds first. problem: why it cannot be read."""

    folder: Path
    bytes: int = 0
    kinds: list[PageKind] = field(default_factory=list)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """pages: those that are what was written; damaged: those that were not, now removed."""

    pages: int
    damaged: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Cleared:
    """What there was."""

    pages: int
    bytes: int


def disk_folders(folder: Path) -> CacheFolder:
    """What is in a folder; changes nothing. Raises StoreError: it is not ours to look at."""
    if not _exists(folder):
        return CacheFolder(folder)
    try:
        with _index(folder) as index, index.connection() as db:
            kinds = [_kind(db, name, text) for name, text in _kinds(db)]
    except (*FAILURES, NewerFormat) as error:
        return CacheFolder(folder, bytes_on_disk(folder), problem=str(error))
    kinds = sorted((k for k in kinds if k.bytes), key=lambda kind: -kind.used)
    return CacheFolder(folder, bytes_on_disk(folder), kinds)


def verify(folder: Path, tell: Callable[[int], None] = lambda pages: None) -> Verified:
    """Read every page, and remove what is damaged. tell: called with each file's pages so far.

    Raises StoreError: the index itself is damaged, or cannot be read.
    """
    if not _exists(folder):
        return Verified(0, {})
    damaged: Counter[str] = Counter()
    pages = 0
    try:
        with _index(folder) as index, index.connection() as db:
            for (complaint,) in db.execute("PRAGMA quick_check(1)").fetchall():
                if complaint != "ok":
                    raise StoreError(f"the index in {folder} is damaged: {complaint}")
            for segment in segments(db):
                for place, reason in _verify_segment(db, folder, segment):
                    pages += reason is None
                    if reason is not None:
                        damaged[reason] += 1
                        _remove(index, segment, place)
                tell(pages)
    except (*FAILURES, NewerFormat) as error:
        raise StoreError(f"cannot verify {folder}: {error}") from error
    return Verified(pages, dict(damaged))


def clear(folder: Path, name: str | None = None) -> Cleared:
    """Remove all pages, or those of one kind, also while others use them. Raises StoreError."""
    if not _exists(folder):
        return Cleared(0, 0)
    pages, before = 0, bytes_on_disk(folder)
    try:
        with _index(folder) as index, folder_lock(folder), index.writing() as db:
            for segment in segments(db, "?1 IS NULL OR f.name = ?1", name):
                pages += remove_segment(db, folder, segment)
    except NewerFormat as error:
        raise StoreError(f"{folder} is left alone: {error}") from error
    except FAILURES as error:
        # One that is damaged, or has no room even for its index's log, goes as a whole.
        if failure_of(error) == "busy" or name is not None:
            raise StoreError(f"cannot clear {folder}: {error}") from error
        _discard(folder)
    return Cleared(pages, max(0, before - bytes_on_disk(folder)))


def _discard(folder: Path) -> None:
    try:
        with folder_lock(folder):
            discard(folder)
    except (OSError, FolderBusy) as error:
        raise StoreError(f"cannot clear {folder}: {error}") from error


def _exists(folder: Path) -> bool:
    """Raises StoreError: it is somebody else's."""
    try:
        if not folder.is_dir() or not any(folder.iterdir()):
            return False
        if not is_ours(folder):
            raise StoreError(f"{folder} is no folder of radixchat's disk cache")
        return (folder / INDEX).exists()
    except OSError as error:
        raise StoreError(f"cannot read {folder}: {error}") from error


@contextmanager
def _index(folder: Path) -> Iterator[DiskIndex]:
    with folder_lock(folder):
        index = DiskIndex(folder)
    try:
        yield index
    finally:
        index.close()


def _kinds(db: sqlite3.Connection) -> list[tuple[str, str]]:
    return db.execute("SELECT name, fields FROM fingerprints").fetchall()


def _kind(db: sqlite3.Connection, name: str, text: str) -> PageKind:
    files = segments(db, "f.name = ?", name)
    statement = "SELECT count(*) FROM slots WHERE segment = ? AND crc IS NOT NULL"
    pages = sum(db.execute(statement, (file.id,)).fetchone()[0] for file in files)
    size = sum(file.slots * slot_bytes(file.stored_bytes) for file in files)
    used = max((file.used for file in files), default=0) / 1e6
    try:
        fields = {str(key): str(value) for key, value in dict(json.loads(text)).items()}
    except (ValueError, TypeError):
        fields = {}
    return PageKind(name, fields, pages, size, used)


def _verify_segment(
    db: sqlite3.Connection, folder: Path, segment: Segment
) -> Iterator[tuple[Place, str | None]]:
    rows = db.execute(
        "SELECT digest, namespace, segment, slot, crc FROM slots"
        " WHERE segment = ? AND crc IS NOT NULL",
        (segment.id,),
    ).fetchall()
    path = segment_path(folder, segment.fingerprint, segment.name)
    try:
        file = SlotFile(path, slot_bytes(segment.stored_bytes))
    except FileNotFoundError:
        yield from ((Place(*row), "file missing") for row in rows)
        return
    stored = memoryview(bytearray(segment.stored_bytes))
    for row in rows:
        place = Place(*row)
        name = page_name(segment.fingerprint, place.namespace, place.digest)
        if file.read(place.slot, stored) < segment.stored_bytes:
            yield place, "cut short"
        elif checksum(name, stored) != place.crc:
            yield place, "damaged"
        else:
            yield place, None


def _remove(index: DiskIndex, segment: Segment, place: Place) -> None:
    """Unless it was replaced while it was looked at."""
    with index.writing() as db:
        (kind,) = db.execute(
            "SELECT id FROM fingerprints WHERE name = ?", (segment.fingerprint,)
        ).fetchone()
        drop(db, kind, place)
