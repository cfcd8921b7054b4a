"""`DiskStore`: pages in a folder that several processes use at once, within one quota.

    put   claim slots (index) -> write -> flush -> valid with their checksums (index)
    get   find (index) -> one read a page -> checksum -> are they still there?

A page that is torn, flipped, foreign or deleted is a miss with a reason. An index that does not
hold together is thrown away with its pages. What cannot be helped (no room, no permission) turns
the store off, once and with a warning. Knows no request and no tokens.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from radixchat.engine.errors import ConfigError
from radixchat.engine.tiers.disk_claims import claim, finish
from radixchat.engine.tiers.disk_deletion import delete_pages
from radixchat.engine.tiers.disk_folder import bytes_on_disk, discard, prepare_folder
from radixchat.engine.tiers.disk_format import layout
from radixchat.engine.tiers.disk_index import (
    FAILURES,
    Connection,
    MovedIndex,
    NewerFormat,
    failure_of,
)
from radixchat.engine.tiers.disk_lock import folder_lock
from radixchat.engine.tiers.disk_news import DiskNews, known_pages
from radixchat.engine.tiers.disk_pages import DiskPages, open_pages
from radixchat.engine.tiers.disk_rows import Place, drop, find, free, segments, touch
from radixchat.engine.tiers.disk_seal import Seal
from radixchat.engine.tiers.disk_space import DiskSpace, remove_segment
from radixchat.engine.tiers.page_store import StoredPage

_LOGGER = logging.getLogger(__name__)
T = TypeVar("T")

# Others' changes are looked up no more often.
LOOK_SECONDS = 1.0
# Pages that become visible together: one flush for all of them.
BATCH = 16
# A folder that is damaged again and again is no place to keep anything.
MAX_DISCARDS = 3
_BAD = {"cut short", "damaged", "not authentic", "unreadable", "file missing"}


@dataclass(frozen=True, slots=True)
class DiskStats:
    """pages: of this kind; bytes: of the whole folder. misses: by reason, since the start."""

    pages: int
    bytes: int
    quota_bytes: int
    hits: int
    written: int
    misses: Mapping[str, int]
    discards: int
    problem: str | None


class DiskStore:
    """A PageStore. problem: why it has turned itself off, if it has."""

    def __init__(
        self,
        folder: Path,
        fingerprint: Mapping[str, str],
        page_bytes: int,
        quota_bytes: int,
        *,
        key: bytes | None = None,
    ) -> None:
        """fingerprint: all that makes pages different ones; key: 32 bytes, encrypts them.

        Raises ConfigError: the quota, the key or the folder cannot be used as such. A folder that
        cannot be written, or is a newer program's, is a `problem`.
        """
        self.page_bytes = page_bytes
        self.problem: str | None = None
        self._folder = folder.absolute()
        self._quota = quota_bytes
        self._seal = Seal(key)
        stored = page_bytes + self._seal.overhead
        self._layout = layout(fingerprint, stored, self._seal.key_id)
        self._space = DiskSpace(self._folder, self._layout, quota_bytes)
        self._pages: DiskPages | None = None
        self._discards = 0
        self._clock = 0
        self._counts: Counter[str] = Counter()
        self._uses: dict[tuple[int, int, bytes], int] = {}
        self._thread = ThreadPoolExecutor(1, "disk-news")
        self._news = DiskNews()
        self._changes: list[dict[bytes, bool]] = []
        self._look: Future[None] | None = None
        self._size = (0, 0)
        self._looked = time.monotonic()
        try:
            self._reopen(None)
            self._attempt(self._look_up, None)
        except (*FAILURES, NewerFormat) as error:
            self._turn_off(str(error))
        self._changes.clear()  # `known` has them

    # --- PageStore

    def get(
        self,
        digests: Sequence[bytes],
        into: Sequence[memoryview],
        deadline: float | None = None,
    ) -> int:
        """PageStore.get."""
        if self.problem is not None or not digests:
            return 0
        return self._attempt(lambda pages: self._get(pages, digests, into, deadline), 0)

    def put(self, pages: Sequence[StoredPage], deadline: float | None = None) -> int:
        """PageStore.put. Durable: a power cut may still take the index's last seconds."""
        done = 0
        while done < len(pages) and self.problem is None:
            batch = pages[done : done + BATCH]
            count = self._attempt(partial(self._put, batch=batch, deadline=deadline), 0)
            done += count
            if count < len(batch):
                break
        return done

    def exists(self, digests: Sequence[bytes]) -> list[bool]:
        """PageStore.exists."""

        def look(pages: DiskPages) -> list[bool]:
            with pages.index.connection() as db:
                found = find(db, pages.owner.fingerprint, digests)
            return [digest in found for digest in digests]

        nothing = [False] * len(digests)
        return nothing if self.problem is not None else self._attempt(look, nothing)

    def delete(self, digests: Sequence[bytes]) -> int:
        """PageStore.delete, whatever kind they are of; their bytes are overwritten."""
        return self._attempt(lambda pages: delete_pages(pages, digests), 0)

    def forget(self, namespace: bytes | None) -> int:
        """PageStore.forget; a namespace's pages of all kinds, or all of this kind."""
        if namespace is None:
            return self._attempt(self._clear, 0)
        return self._attempt(lambda pages: delete_pages(pages, namespace), 0)

    def known(self) -> Iterator[bytes]:
        """PageStore.known."""

        def names(pages: DiskPages) -> list[bytes]:
            with pages.index.connection() as db:
                return known_pages(db, pages.owner.fingerprint)

        none: list[bytes] = []
        return iter(none if self.problem is not None else self._attempt(names, none))

    def news(self) -> tuple[list[bytes], list[bytes]]:
        """PageStore.news; what happened is told within two seconds."""
        self._look_soon()
        changes: dict[bytes, bool] = {}
        while self._changes:
            changes |= self._changes.pop(0)
        came = [digest for digest, is_there in changes.items() if is_there]
        return came, [digest for digest, is_there in changes.items() if not is_there]

    def close(self) -> None:
        """PageStore.close."""
        self._looked = math.inf  # nobody looks again
        self._thread.shutdown(wait=True)
        self._attempt(self._look_up, None)
        if self._pages is not None:
            self._keep_counts(self._pages)
            self._pages.close()
            self._pages = None

    def stats(self) -> DiskStats:
        """What it has, as of about a second ago, and what came of what was asked; quick."""
        self._look_soon()
        total = self._counts.copy()
        for counts in self._pages.index.counts if self._pages is not None else ():
            total.update(counts.copy())
        hits, written = total.pop("hit", 0), total.pop("written", 0)
        return DiskStats(
            *self._size, self._quota, hits, written, dict(total), self._discards, self.problem
        )

    # --- on the threads of whoever calls

    def _get(
        self,
        pages: DiskPages,
        digests: Sequence[bytes],
        into: Sequence[memoryview],
        deadline: float | None,
    ) -> int:
        with pages.index.connection() as db:
            version = db.execute("PRAGMA data_version").fetchone()
            places = find(db, pages.owner.fingerprint, digests)
            count, reason = 0, None
            for digest, row in zip(digests, into, strict=True):
                place = places.get(digest)
                if deadline is not None and time.monotonic() > deadline:
                    reason = "late"
                elif place is None:
                    reason = _why_absent(db, pages, digest)
                else:
                    reason = pages.read(db, place, row)
                if reason is not None:
                    break
                count += 1
            # What was deleted, or made room, while it was read here is not served.
            if db.execute("PRAGMA data_version").fetchone() != version:
                there = find(db, pages.owner.fingerprint, digests[: count + 1])
                same = [there.get(d) == places.get(d) for d in digests[: count + 1]]
                if False in same:
                    count, reason = same.index(False), "gone"
            self._note_uses(places, digests[:count])
            db.counts["hit"] += count
            if reason is not None:
                db.counts[reason] += 1
        if reason in _BAD:
            with pages.index.writing() as db:
                drop(db, pages.owner.fingerprint, places[digests[count]])
        return count

    def _put(self, pages: DiskPages, batch: Sequence[StoredPage], deadline: float | None) -> int:
        token = pages.owner.token
        with folder_lock(self._folder), pages.index.writing() as db:
            self._flush_uses(db)
            claims = claim(db, self._space, pages.owner, batch, self._now(len(batch)))
        mine = [place for place in claims if place is not None]
        written: list[Place] = []
        try:
            with pages.index.connection() as db:
                for page, place in zip(batch, claims, strict=False):
                    if deadline is not None and time.monotonic() > deadline:
                        break
                    if place is not None:
                        written.append(pages.write(db, place, page))
                pages.flush(db, written)
        except OSError as error:
            with folder_lock(self._folder), pages.index.writing() as db:
                free(db, mine, token)
                self._space.trim(db)
            if isinstance(error, FileNotFoundError):  # somebody has removed a single file
                return 0
            raise
        with pages.index.writing() as db:
            valid = finish(db, pages.owner, written)
            free(db, mine, token)
            db.counts["written"] += len(written)
        done = [p is None or p.digest in valid for p in claims]
        return [*done, False].index(False)

    def _clear(self, pages: DiskPages) -> int:
        number = 0
        with folder_lock(self._folder), pages.index.writing() as db:
            for segment in segments(db, "f.name = ?", self._layout.name):
                number += remove_segment(db, self._folder, segment)
        return number

    def _note_uses(self, places: Mapping[bytes, Place], digests: Sequence[bytes]) -> None:
        # What comes first in a prefix is of use without the rest, so it is the last to leave.
        now = self._now(len(digests))
        for index, digest in enumerate(digests):
            place = places[digest]
            self._uses[place.segment, place.slot, digest] = now + len(digests) - index

    def _flush_uses(self, db: Connection) -> None:
        uses, self._uses = self._uses, {}
        if uses:
            touch(db, uses.copy())

    def _now(self, span: int) -> int:
        """Microseconds since the epoch, and later than all `span`s that were given out before."""
        now = max(time.time_ns() // 1000, self._clock + 1)
        self._clock = now + span
        return now

    # --- other processes, failures

    def _look_soon(self) -> None:
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS and (self._look is None or self._look.done()):
            self._looked = now
            self._look = self._thread.submit(self._attempt, self._look_up, None)

    def _look_up(self, pages: DiskPages) -> None:
        with pages.index.connection() as db:
            changes = self._news.look(db, pages)
            pages.close_files(db)
        if changes:
            self._changes.append(changes)
        self._size = len(self._news.known), bytes_on_disk(self._folder)
        if self._uses:
            with pages.index.writing() as db:
                self._flush_uses(db)

    def _attempt(self, call: Callable[[DiskPages], T], missed: T) -> T:
        """What a call returns, or `missed` if it fails; then what there is to be done is done."""
        pages = self._pages
        if pages is None:
            return missed
        try:
            if not pages.index.is_current:
                raise MovedIndex
            return call(pages)
        except FAILURES as error:
            self._fail(pages, error)
        return missed

    def _fail(self, pages: DiskPages, error: BaseException) -> None:
        failure = failure_of(error)
        try:
            if failure == "busy":
                self._counts["busy"] += 1
            elif failure == "moved" or not pages.index.is_current:
                self._reopen(pages)
            elif failure == "damage":
                self._reopen(pages, f"its index is damaged: {error}")
            else:
                self._turn_off(failure)
        except (*FAILURES, NewerFormat, ConfigError) as second:
            self._turn_off(str(second))

    def _reopen(self, pages: DiskPages | None, damage: str | None = None) -> None:
        """Open the folder again, unless another thread has. Raises FAILURES and more."""
        prepare_folder(self._folder)
        with folder_lock(self._folder):
            if self._pages is not pages:
                return
            if pages is not None:
                if damage is not None and pages.index.is_current:
                    discard(self._folder)
                self._keep_counts(pages)
                pages.close()
            opened, reason = open_pages(self._folder, self._layout, self._seal, self._space)
            self._pages = opened
        reason = damage or reason
        if reason is not None:
            self._discards += 1
            _LOGGER.warning("the disk cache in %s begins anew: %s", self._folder, reason)
            if self._discards >= MAX_DISCARDS:
                self._turn_off("it was damaged again and again")

    def _keep_counts(self, pages: DiskPages) -> None:
        for counts in pages.index.counts:
            self._counts.update(counts)

    def _turn_off(self, reason: str) -> None:
        if self.problem is None:
            self.problem = f"the disk cache in {self._folder} is off: {reason}"
            _LOGGER.warning("%s", self.problem)


def _why_absent(db: Connection, pages: DiskPages, digest: bytes) -> str:
    for fingerprint in pages.otherwise_sealed:
        if find(db, fingerprint, [digest]):
            return "another key"
    return "absent"
