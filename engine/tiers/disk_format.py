"""How pages lie on a disk: names, sizes and the schema. A change here is a new FORMAT.

    folder/                     0700
      CACHEDIR.TAG              backups leave it out, and we know it for ours
      index.sqlite3  -wal -shm  which page lies where, for all fingerprints
      lock                      held while files come and go
      writer-<token>            held by each process that writes
      <fingerprint>/            one for each kind of page: 32 hexadecimal digits
        <token>.pages           64 MiB of slots of one size, a page in each

Knows no connection and no file descriptor.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FORMAT = 1
# "RCPG": a database of ours and no other's.
APPLICATION_ID = 0x52435047

INDEX, LOCK, TAG, WRITER = "index.sqlite3", "lock", "CACHEDIR.TAG", "writer-"
TAG_TEXT = """Signature: 8a477f597d28d172789f06886806bc55
# Pages of radixchat's prefix cache. May be deleted at any time: `radixchat cache clear`.
# Of use to radixchat only; see https://bford.info/cachedir/
"""
FINGERPRINT_FOLDER = re.compile(r"[0-9a-f]{32}")
SLOT_FILE = "*.pages"

ALIGNMENT = 4096
SEGMENT_BYTES = 64 << 20
# What the index may grow to: its log, and the rows of each slot (measured: 200 to 300 bytes).
INDEX_BYTES, INDEX_BYTES_A_SLOT = 4 << 20, 512
# A quota holds at least so many files, so that several fingerprints can share it.
MIN_SEGMENTS = 8
# The last changes that others can follow; who is further behind reads everything again.
CHANGES_KEPT = 8192

SCHEMA = """
CREATE TABLE fingerprints (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    fields TEXT NOT NULL, stored_bytes INTEGER NOT NULL);
CREATE TABLE segments (id INTEGER PRIMARY KEY AUTOINCREMENT, fingerprint INTEGER NOT NULL,
    name TEXT NOT NULL UNIQUE, slots INTEGER NOT NULL, used INTEGER NOT NULL);
CREATE TABLE slots (segment INTEGER NOT NULL, slot INTEGER NOT NULL, fingerprint INTEGER NOT NULL,
    digest BLOB, namespace BLOB, crc INTEGER, used INTEGER, owner TEXT,
    PRIMARY KEY (segment, slot)) WITHOUT ROWID;
CREATE UNIQUE INDEX slots_valid ON slots(fingerprint, digest) WHERE crc IS NOT NULL;
CREATE INDEX slots_by_use ON slots(fingerprint, used) WHERE crc IS NOT NULL;
CREATE INDEX slots_free ON slots(fingerprint) WHERE digest IS NULL;
CREATE INDEX slots_claimed ON slots(owner) WHERE owner IS NOT NULL;
CREATE TABLE changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, fingerprint INTEGER NOT NULL,
    digest BLOB NOT NULL, came INTEGER NOT NULL);
"""
# A slot is free (no digest), claimed (an owner), or valid (a checksum).


@dataclass(frozen=True, slots=True)
class Layout:
    """One kind of page. fields: what distinguishes it, as JSON; stored_bytes: of one on disk."""

    name: str
    fields: str
    stored_bytes: int

    @property
    def slot_bytes(self) -> int:
        """From one slot to the next."""
        return slot_bytes(self.stored_bytes)


def layout(fingerprint: Mapping[str, str], stored_bytes: int, key_id: str) -> Layout:
    """The kind of pages that agree in everything that is told; key_id: "" if they are readable."""
    told = dict(fingerprint) | {"stored_bytes": str(stored_bytes), "encryption": key_id}
    fields = json.dumps(told, sort_keys=True, ensure_ascii=False)
    name = hashlib.sha256(f"{FORMAT} {fields}".encode()).hexdigest()[:32]
    return Layout(name, fields, stored_bytes)


def slot_bytes(stored_bytes: int) -> int:
    """A page's bytes and what is left free after them."""
    return -(-stored_bytes // ALIGNMENT) * ALIGNMENT


def segment_bytes_for(quota_bytes: int, slot: int) -> int:
    """What all files of slots may have together, so that the index has room as well."""
    return max(0, quota_bytes - INDEX_BYTES) * slot // (slot + INDEX_BYTES_A_SLOT)


def slots_a_segment(budget: int, slot: int) -> int:
    """How many slots a file has."""
    return max(1, min(SEGMENT_BYTES, budget // MIN_SEGMENTS) // slot)


def min_quota(slot: int) -> int:
    """The smallest quota with room for a few pages."""
    return INDEX_BYTES + MIN_SEGMENTS * (slot + INDEX_BYTES_A_SLOT)


def segment_path(folder: Path, fingerprint: str, segment: str) -> Path:
    """Where a file of slots lies."""
    return folder / fingerprint / f"{segment}.pages"


def page_name(fingerprint: str, namespace: bytes, digest: bytes) -> bytes:
    """What a page's checksum and tag cover besides its bytes: it is no other page's."""
    return b"".join((fingerprint.encode(), namespace, digest))
