"""The index's rows as values, and the statements that read and write slots.

Each is called with a connection, in a transaction where it writes. Knows no file and no quota.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from radixchat.engine.tiers.disk_format import CHANGES_KEPT, Layout
from radixchat.engine.tiers.disk_index import DamagedIndex

_FREE = "digest = NULL, namespace = NULL, crc = NULL, used = NULL, owner = NULL"
_CHUNK = 256
# More than any page has, and any file.
MAX_PAGE, MAX_SLOTS = 1 << 28, 1 << 24


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page lies: `slot` of the file `segment`; its checksum, if it is valid."""

    digest: bytes
    namespace: bytes
    segment: int
    slot: int
    crc: int | None

    def __post_init__(self) -> None:
        """Raises DamagedIndex: a flipped byte can make anything of a number."""
        numbers = isinstance(self.segment, int) and isinstance(self.slot, int)
        names = isinstance(self.digest, bytes) and isinstance(self.namespace, bytes)
        if not numbers or not names or not 0 <= self.slot < 1 << 32:
            raise DamagedIndex(f"a row says {self}")


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of slots."""

    id: int
    fingerprint: str
    name: str
    stored_bytes: int
    slots: int
    used: int

    def __post_init__(self) -> None:
        """Raises DamagedIndex."""
        numbers = (self.id, self.stored_bytes, self.slots, self.used)
        names = (self.fingerprint, self.name)
        whole = all(isinstance(n, int) and n >= 0 for n in numbers)
        if (
            not whole
            or self.stored_bytes > MAX_PAGE
            or self.slots > MAX_SLOTS
            or not all(isinstance(n, str) and n.isalnum() for n in names)
        ):
            raise DamagedIndex(f"a row says {self}")


def fingerprint_id(db: sqlite3.Connection, layout: Layout) -> int:
    """The number of a kind of pages, which is noted if it is new."""
    db.execute(
        "INSERT OR IGNORE INTO fingerprints (name, fields, stored_bytes) VALUES (?, ?, ?)",
        (layout.name, layout.fields, layout.stored_bytes),
    )
    found = db.execute(
        "SELECT id FROM fingerprints WHERE name = ? AND stored_bytes = ?",
        (layout.name, layout.stored_bytes),
    ).fetchone()
    if found is None or not isinstance(found[0], int):
        raise DamagedIndex(f"the fingerprint {layout.name} is {found}")
    return int(found[0])


def all_fingerprints(db: sqlite3.Connection) -> list[int]:
    """The numbers of all kinds of pages."""
    return [row[0] for row in db.execute("SELECT id FROM fingerprints")]


def segments(db: sqlite3.Connection, where: str = "TRUE", *values: object) -> list[Segment]:
    """Files of slots, those first that were not used for the longest time."""
    rows = db.execute(
        "SELECT s.id, f.name, s.name, f.stored_bytes, s.slots, s.used FROM segments s"
        f" JOIN fingerprints f ON f.id = s.fingerprint WHERE {where} ORDER BY s.used",
        values,
    )
    return [Segment(*row) for row in rows]


def find(db: sqlite3.Connection, fingerprint: int, digests: Sequence[bytes]) -> dict[bytes, Place]:
    """Where those of the pages lie that are valid."""
    found: dict[bytes, Place] = {}
    for start in range(0, len(digests), _CHUNK):
        some = digests[start : start + _CHUNK]
        marks = ",".join("?" * len(some))
        rows = db.execute(
            "SELECT digest, namespace, segment, slot, crc FROM slots"
            f" WHERE fingerprint = ? AND crc IS NOT NULL AND digest IN ({marks})",
            (fingerprint, *some),
        )
        found.update((row[0], Place(*row)) for row in rows)
    return found


def touch(db: sqlite3.Connection, uses: Mapping[tuple[int, int, bytes], int]) -> None:
    """Pages were used: (segment, slot, digest) → when."""
    last: dict[int, int] = {}
    for (segment, _, _), used in uses.items():
        last[segment] = max(used, last.get(segment, 0))
    db.executemany(
        "UPDATE slots SET used = ?4 WHERE segment = ?1 AND slot = ?2 AND digest = ?3",
        [(*place, used) for place, used in uses.items()],
    )
    db.executemany("UPDATE segments SET used = max(used, ?2) WHERE id = ?1", last.items())


def note(db: sqlite3.Connection, pages: Iterable[tuple[int, bytes]], *, came: bool) -> None:
    """Tell others: of (fingerprint, digest)."""
    db.executemany(
        "INSERT INTO changes (fingerprint, digest, came) VALUES (?, ?, ?)",
        [(*page, came) for page in pages],
    )
    db.execute(
        "DELETE FROM changes WHERE seq <= (SELECT max(seq) FROM changes) - ?", (CHANGES_KEPT,)
    )


def free(db: sqlite3.Connection, places: Iterable[Place], owner: str) -> None:
    """Slots that this owner had claimed are free again; those that are not its any more stay."""
    db.executemany(
        f"UPDATE slots SET {_FREE} WHERE segment = ? AND slot = ? AND owner = ?",
        [(place.segment, place.slot, owner) for place in places],
    )


def drop(db: sqlite3.Connection, fingerprint: int, place: Place) -> None:
    """A valid page was found not to be: its slot is free, unless that has another by now."""
    dropped = db.execute(
        f"UPDATE slots SET {_FREE} WHERE segment = ? AND slot = ? AND digest = ? AND crc = ?",
        (place.segment, place.slot, place.digest, place.crc),
    )
    if dropped.rowcount:
        note(db, [(fingerprint, place.digest)], came=False)


def evict(db: sqlite3.Connection, fingerprint: int, count: int, before: int) -> int:
    """Free the slots of pages that were not used for the longest time, nor since `before`."""
    rows = db.execute(
        "SELECT segment, slot, digest FROM slots WHERE fingerprint = ? AND crc IS NOT NULL"
        " AND used < ? ORDER BY used LIMIT ?",
        (fingerprint, before, count),
    ).fetchall()
    db.executemany(
        f"UPDATE slots SET {_FREE} WHERE segment = ? AND slot = ?", [row[:2] for row in rows]
    )
    note(db, [(fingerprint, digest) for _, _, digest in rows], came=False)
    return len(rows)


def hide(
    db: sqlite3.Connection, owner: str, condition: str, values: Sequence[object], limit: int
) -> list[Place]:
    """Nobody reads pages any more that meet a condition; their slots are `owner`'s, to be erased.

    Nor will those be read that are being written: whoever does it loses them.
    """
    db.execute(f"UPDATE slots SET digest = x'' WHERE owner IS NOT NULL AND {condition}", values)
    rows = db.execute(
        "SELECT fingerprint, digest, namespace, segment, slot, crc FROM slots"
        f" WHERE crc IS NOT NULL AND {condition} LIMIT {limit}",
        values,
    ).fetchall()
    db.executemany(
        "UPDATE slots SET crc = NULL, owner = ? WHERE segment = ? AND slot = ?",
        [(owner, row[3], row[4]) for row in rows],
    )
    note(db, [row[:2] for row in rows], came=False)
    return [Place(*row[1:]) for row in rows]
