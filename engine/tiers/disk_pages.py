"""`DiskPages`: an opened folder of pages: its index, its files, and who writes there.

Reads a page with one positional read, and lets nothing through whose checksum is wrong. Is given
up as a whole when the folder is begun anew. Knows no request, and not what a failure leads to.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from radixchat.engine.tiers.disk_claims import Owner
from radixchat.engine.tiers.disk_folder import discard, forget_dead_writers, mark_as_ours
from radixchat.engine.tiers.disk_format import Layout, page_name, segment_path, slot_bytes
from radixchat.engine.tiers.disk_index import FAILURES, DiskIndex, failure_of
from radixchat.engine.tiers.disk_lock import WriterLock
from radixchat.engine.tiers.disk_rows import Place, fingerprint_id, segments
from radixchat.engine.tiers.disk_seal import Seal, checksum
from radixchat.engine.tiers.disk_slots import SlotFile
from radixchat.engine.tiers.disk_space import DiskSpace
from radixchat.engine.tiers.page_store import StoredPage


class DiskPages:
    """owner: who writes here. otherwise_sealed: kinds of pages that only another key opens."""

    def __init__(self, folder: Path, layout: Layout, seal: Seal, space: DiskSpace) -> None:
        """Whoever calls holds the folder's lock. Raises FAILURES, NewerFormat."""
        self.folder = folder
        self._layout = layout
        self._seal = seal
        self._files: dict[int, SlotFile] = {}
        self.index = DiskIndex(folder)
        try:
            self._writer = WriterLock(folder)
            forget_dead_writers(folder)
            with self.index.writing() as db:
                self.owner = Owner(self._writer.token, fingerprint_id(db, layout))
                self.otherwise_sealed = _otherwise_sealed(db, layout)
                space.free_dead_claims(db, self.owner.token)
                space.trim(db)
        except BaseException:
            self.index.close()
            raise

    def read(self, db: sqlite3.Connection, place: Place, into: memoryview) -> str | None:
        """Why a page cannot be had; None: `into` has it."""
        try:
            file = self._file(db, place.segment)
            with self._seal.room(into) as stored:
                return self._read(file, place, stored, into)
        except FileNotFoundError:
            return "file missing"
        except PermissionError:
            raise
        except OSError:
            return "unreadable"

    def write(self, db: sqlite3.Connection, place: Place, page: StoredPage) -> Place:
        """Write a page to its slot; its place, with the checksum. Raises OSError."""
        name = self._name(place)
        with self._seal.closed(page.data, name) as stored:
            self._file(db, place.segment).write(place.slot, stored)
            return replace(place, crc=checksum(name, stored))

    def erase(self, db: sqlite3.Connection, places: Iterable[Place]) -> None:
        """Overwrite slots with zeros. Raises OSError."""
        places = list(places)
        for place in places:
            file = self._file(db, place.segment)
            file.write(place.slot, memoryview(bytes(file.slot_bytes)))
        self.flush(db, places)

    def flush(self, db: sqlite3.Connection, places: Iterable[Place]) -> None:
        """Wait until slots are on the disk. Raises OSError."""
        for segment in {place.segment for place in places}:
            self._file(db, segment).flush()

    def close_files(self, db: sqlite3.Connection) -> None:
        """Those that are not in the index any more: their room is free when nobody has them."""
        kept = {segment.id for segment in segments(db)}
        for segment in list(self._files):
            if segment not in kept:
                self._files.pop(segment, None)

    def close(self) -> None:
        """No call comes after this; those that run may end."""
        self.index.close()
        self._files.clear()
        self._writer.close()

    def _file(self, db: sqlite3.Connection, segment: int) -> SlotFile:
        file = self._files.get(segment)
        if file is None:
            found = segments(db, "s.id = ?", segment)
            if not found:
                raise FileNotFoundError(f"file {segment} of pages is gone")
            (of,) = found
            path = segment_path(self.folder, of.fingerprint, of.name)
            file = self._files[segment] = SlotFile(path, slot_bytes(of.stored_bytes))
        return file

    def _read(
        self, file: SlotFile, place: Place, stored: memoryview, into: memoryview
    ) -> str | None:
        count = file.read(place.slot, stored)
        if count < self._layout.stored_bytes:
            return "cut short"
        name = self._name(place)
        if checksum(name, stored) != place.crc:
            return "damaged"
        return None if self._seal.open(stored, into, name) else "not authentic"

    def _name(self, place: Place) -> bytes:
        return page_name(self._layout.name, place.namespace, place.digest)


def open_pages(
    folder: Path, layout: Layout, seal: Seal, space: DiskSpace
) -> tuple[DiskPages, str | None]:
    """The folder's pages, and why it begins anew if it does; call it with the folder's lock.

    Raises FAILURES, NewerFormat.
    """
    mark_as_ours(folder)
    try:
        return DiskPages(folder, layout, seal, space), None
    except FAILURES as error:
        if failure_of(error) != "damage":
            raise
        discard(folder)
        return DiskPages(folder, layout, seal, space), f"its index is damaged: {error}"


def _otherwise_sealed(db: sqlite3.Connection, layout: Layout) -> list[int]:
    """Kinds of pages that agree in everything but the key."""
    found = db.execute("SELECT id, fields FROM fingerprints WHERE name != ?", (layout.name,))
    return [number for number, fields in found if _unsealed(fields) == _unsealed(layout.fields)]


def _unsealed(fields: object) -> object:
    try:
        told = json.loads(str(fields))
    except ValueError:
        return None
    if not isinstance(told, dict):
        return None
    return {k: v for k, v in told.items() if k not in ("encryption", "stored_bytes")}
