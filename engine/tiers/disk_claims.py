"""What a page that is written goes through in the index: claimed, valid, or given up.

    claim  ->  write, flush  ->  finish          a slot is nobody else's from its claim on
                             ->  rows.free

Each is called in a transaction. Knows no file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from radixchat.engine.tiers.disk_rows import Place, find, free, note, touch
from radixchat.engine.tiers.disk_space import DiskSpace
from radixchat.engine.tiers.page_store import StoredPage


@dataclass(frozen=True, slots=True)
class Owner:
    """Who writes, and which kind of pages."""

    token: str
    fingerprint: int


def claim(
    db: sqlite3.Connection, space: DiskSpace, owner: Owner, pages: Sequence[StoredPage], now: int
) -> list[Place | None]:
    """A slot for each page; None: it is there already. Fewer than pages: that was all the room."""
    there = find(db, owner.fingerprint, [page.digest for page in pages])
    # What comes first in a prefix is of use without the rest, so it is the last to leave.
    uses = {page.digest: now + len(pages) - index for index, page in enumerate(pages)}
    touch(db, {(p.segment, p.slot, p.digest): uses[p.digest] for p in there.values()})
    missing = sum(page.digest not in there for page in pages)
    slots = iter(space.free_slots(db, owner.fingerprint, missing, now, owner.token))
    claims: list[Place | None] = []
    for page in pages:
        slot = None if page.digest in there else next(slots, None)
        if slot is None and page.digest not in there:
            break
        claims.append(slot and Place(page.digest, page.namespace, *slot, crc=None))
    db.executemany(
        "UPDATE slots SET digest = ?, namespace = ?, used = ?, owner = ?"
        " WHERE segment = ? AND slot = ?",
        [
            (c.digest, c.namespace, uses[c.digest], owner.token, c.segment, c.slot)
            for c in claims
            if c is not None
        ],
    )
    db.executemany(
        "UPDATE segments SET used = max(used, ?) WHERE id = ?",
        {(now, c.segment) for c in claims if c is not None},
    )
    return claims


def finish(db: sqlite3.Connection, owner: Owner, written: Sequence[Place]) -> set[bytes]:
    """Pages are on the disk, with their checksums: which of them are valid now.

    Not those that were deleted meanwhile. One that another process wrote too is kept once.
    """
    valid: set[bytes] = set()
    for place in written:
        changed = db.execute(
            "UPDATE OR IGNORE slots SET crc = ?, owner = NULL"
            " WHERE segment = ? AND slot = ? AND owner = ? AND digest = ?",
            (place.crc, place.segment, place.slot, owner.token, place.digest),
        ).rowcount
        if changed:
            valid.add(place.digest)
    note(db, [(owner.fingerprint, digest) for digest in valid], came=True)
    others = [place for place in written if place.digest not in valid]
    valid.update(find(db, owner.fingerprint, [place.digest for place in others]))
    free(db, written, owner.token)
    return valid
