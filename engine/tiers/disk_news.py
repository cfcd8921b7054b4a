"""`DiskNews`: which pages came and went, by whatever process, read from the index's own log.

Who has fallen behind the log reads all names and compares. Used by one thread at a time.
"""

from __future__ import annotations

import sqlite3

from radixchat.engine.tiers.disk_index import DamagedIndex
from radixchat.engine.tiers.disk_pages import DiskPages


class DiskNews:
    """known: the pages as of the last look."""

    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self._pages: DiskPages | None = None
        self._seen = 0

    def look(self, db: sqlite3.Connection, pages: DiskPages) -> dict[bytes, bool]:
        """What changed since the last look: name → whether it is there now. Raises FAILURES."""
        fingerprint = pages.owner.fingerprint
        first, last = db.execute(
            "SELECT coalesce(min(seq), 1), coalesce(max(seq), 0) FROM changes"
        ).fetchone()
        if not isinstance(first, int) or not isinstance(last, int):
            raise DamagedIndex(f"changes are numbered from {first!r} to {last!r}")
        if pages is not self._pages or first > self._seen + 1 or last < self._seen:
            there = set(known_pages(db, fingerprint))
            changes = dict.fromkeys(there - self.known, True)
            changes |= dict.fromkeys(self.known - there, False)
            self._pages = pages
        else:
            rows = db.execute(
                "SELECT digest, came FROM changes WHERE seq > ? AND seq <= ? AND fingerprint = ?"
                " ORDER BY seq",
                (self._seen, last, fingerprint),
            )
            changes = {_name(digest): bool(came) for digest, came in rows}
        self._seen = last
        for digest, came in changes.items():
            (self.known.add if came else self.known.discard)(digest)
        return changes


def known_pages(db: sqlite3.Connection, fingerprint: int) -> list[bytes]:
    """The names of all valid pages of a kind. Raises FAILURES."""
    rows = db.execute(
        "SELECT digest FROM slots WHERE fingerprint = ? AND crc IS NOT NULL", (fingerprint,)
    )
    return [_name(digest) for (digest,) in rows]


def _name(digest: object) -> bytes:
    if not isinstance(digest, bytes):
        raise DamagedIndex(f"a page is named {digest!r}")
    return digest
