"""`DiskSpace`: the files of slots that a quota has room for, and which of them make room.

A slot is used again within its own fingerprint; between fingerprints a whole file changes hands,
the one that was not used for the longest time. Everything here happens in a transaction and under
the folder's lock, so that no two processes find the same room. Knows no page's bytes.
"""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path

from radixchat.engine.errors import ConfigError
from radixchat.engine.tiers.disk_folder import bytes_on_disk, slot_files
from radixchat.engine.tiers.disk_format import (
    Layout,
    min_quota,
    segment_bytes_for,
    segment_path,
    slot_bytes,
    slots_a_segment,
)
from radixchat.engine.tiers.disk_index import DamagedIndex
from radixchat.engine.tiers.disk_lock import is_alive
from radixchat.engine.tiers.disk_rows import Segment, all_fingerprints, evict, segments
from radixchat.engine.tiers.disk_slots import create_slot_file, remove_slot_file

_UNCLAIMED = "s.id NOT IN (SELECT segment FROM slots WHERE owner IS NOT NULL)"


class DiskSpace:
    """The room of one kind of pages in one folder. What is not said to: raises FAILURES."""

    def __init__(self, folder: Path, layout: Layout, quota_bytes: int) -> None:
        """Raises ConfigError: the quota is too small for a few pages."""
        needed = min_quota(layout.slot_bytes)
        if quota_bytes < needed:
            raise ConfigError(
                f"the disk cache's quota is {quota_bytes} bytes; pages of {layout.stored_bytes}"
                f" bytes need {needed} at least"
            )
        self._folder = folder
        self._layout = layout
        self._quota = quota_bytes
        self._budget = segment_bytes_for(quota_bytes, layout.slot_bytes)
        self._slots = slots_a_segment(self._budget, layout.slot_bytes)

    def free_slots(
        self, db: sqlite3.Connection, fingerprint: int, count: int, before: int, owner: str
    ) -> list[tuple[int, int]]:
        """Up to `count` free slots (segment, slot); pages that were used since `before` stay."""
        statement = (
            "SELECT segment, slot FROM slots WHERE fingerprint = ? AND digest IS NULL"
            " ORDER BY segment, slot LIMIT ?"
        )
        rows = db.execute(statement, (fingerprint, count)).fetchall()
        if len(rows) < count:
            self.free_dead_claims(db, owner)
            rows = db.execute(statement, (fingerprint, count)).fetchall()
        while len(rows) < count and self._make_room(db, fingerprint, count - len(rows), before):
            rows = db.execute(statement, (fingerprint, count)).fetchall()
        return rows

    def trim(self, db: sqlite3.Connection) -> None:
        """Keep the quota, which may have been larger before; and remove what is only half there."""
        self.remove_orphans(db)
        for segment in segments(db):
            if not segment_path(self._folder, segment.fingerprint, segment.name).exists():
                remove_segment(db, self._folder, segment)
        while self._taken(db) > self._budget:
            oldest = segments(db, _UNCLAIMED)
            if not oldest:
                return
            remove_segment(db, self._folder, oldest[0])

    def remove_orphans(self, db: sqlite3.Connection) -> None:
        """Remove files of slots that a process made, and did not live to tell of."""
        known = {segment.name for segment in segments(db)}
        for path in slot_files(self._folder):
            if path.stem not in known:
                remove_slot_file(path)

    def free_dead_claims(self, db: sqlite3.Connection, owner: str) -> None:
        """The slots that a process was writing when it ended are free."""
        for (other,) in db.execute("SELECT DISTINCT owner FROM slots WHERE owner IS NOT NULL"):
            if other != owner and not (str(other).isalnum() and is_alive(self._folder, other)):
                db.execute(
                    "UPDATE slots SET digest = NULL, namespace = NULL, used = NULL, owner = NULL"
                    " WHERE owner = ?",
                    (other,),
                )

    def _make_room(self, db: sqlite3.Connection, fingerprint: int, count: int, before: int) -> bool:
        """Whether there are more free slots, or may be soon."""
        if self._grow(db, fingerprint):
            return True
        others = segments(db, f"s.fingerprint != ? AND {_UNCLAIMED}", fingerprint)
        (own,) = db.execute(
            "SELECT min(used) FROM slots WHERE fingerprint = ? AND crc IS NOT NULL",
            (fingerprint,),
        ).fetchone()
        if own is not None and not isinstance(own, int):
            raise DamagedIndex(f"a page was used at {own!r}")
        if others and (own is None or others[0].used < own):
            remove_segment(db, self._folder, others[0])
            return True
        return evict(db, fingerprint, count, before) > 0

    def _grow(self, db: sqlite3.Connection, fingerprint: int) -> bool:
        """One more file, if the quota has room for it."""
        size = self._slots * self._layout.slot_bytes
        if self._taken(db) + size > self._budget:
            return False
        if not self._has_room(size):
            self.remove_orphans(db)
            if not self._has_room(size):
                return False
        name = secrets.token_hex(8)
        path = segment_path(self._folder, self._layout.name, name)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        create_slot_file(path, size)
        cursor = db.execute(
            "INSERT INTO segments (fingerprint, name, slots, used) VALUES (?, ?, ?, 0)",
            (fingerprint, name, self._slots),
        )
        db.executemany(
            "INSERT INTO slots (segment, slot, fingerprint) VALUES (?, ?, ?)",
            [(cursor.lastrowid, slot, fingerprint) for slot in range(self._slots)],
        )
        return True

    def _has_room(self, size: int) -> bool:
        """Whether the disk says so too, where files may be that no row names."""
        files = sum(path.stat().st_size for path in slot_files(self._folder))
        return files + size <= self._budget and bytes_on_disk(self._folder) + size <= self._quota

    def _taken(self, db: sqlite3.Connection) -> int:
        return sum(s.slots * slot_bytes(s.stored_bytes) for s in segments(db))


def remove_segment(db: sqlite3.Connection, folder: Path, segment: Segment) -> int:
    """A file and all its pages are gone, and its room is free; how many pages there were."""
    gone = db.execute(
        "INSERT INTO changes (fingerprint, digest, came)"
        " SELECT fingerprint, digest, 0 FROM slots WHERE segment = ? AND crc IS NOT NULL",
        (segment.id,),
    )
    db.execute("DELETE FROM slots WHERE segment = ?", (segment.id,))
    db.execute("DELETE FROM segments WHERE id = ?", (segment.id,))
    path = segment_path(folder, segment.fingerprint, segment.name)
    remove_slot_file(path)
    if path.parent.exists() and not any(path.parent.iterdir()):
        path.parent.rmdir()
    return gone.rowcount


def remove_empty_segments(db: sqlite3.Connection, folder: Path) -> None:
    """Files without a page are of no use to those who deleted all of them."""
    for fingerprint in all_fingerprints(db):
        empty = "NOT EXISTS (SELECT 1 FROM slots WHERE segment = s.id AND digest IS NOT NULL)"
        for segment in segments(db, f"s.fingerprint = ? AND {empty}", fingerprint):
            remove_segment(db, folder, segment)
