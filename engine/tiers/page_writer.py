"""`PageWriter`: pages on their way into a store, and out of it, in the order in which it was said.

One thread does both, so that a page that was deleted is not there because its writing came later.
What waits is bounded: what finds no room is lost to the store, and nothing else. Used on one
thread, but for the store itself. Knows no pool and no host memory.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from radixchat.engine.tiers.page_bytes import Row
from radixchat.engine.tiers.page_store import PageStore, StoredPage
from radixchat.radix.tiers import Tier, TierMarks

_LOGGER = logging.getLogger(__name__)

# Bytes of memory that pages may wait in.
MAX_WAITING_BYTES = 64 << 20
BATCH = 16


@dataclass(frozen=True, slots=True)
class _Write:
    digests: list[bytes]
    future: Future[int]


class PageWriter:
    """Writes to one store. put_pages: all that were to be written; written: those that are there;
    lost: those that found no room.
    """

    def __init__(
        self, store: PageStore, tier: Tier, marks: TierMarks, tell: Callable[[], None]
    ) -> None:
        """marks: where is noted what the store has, as its `tier`. tell: called from the writer's
        thread when `collect` finds something.
        """
        self._tell = tell
        self.put_pages = 0
        self.written = 0
        self.lost = 0
        self._store = store
        self._tier = tier
        self._marks = marks
        self._thread = ThreadPoolExecutor(1, "page-writer")
        self._waiting: set[bytes] = set()
        self._batch: list[StoredPage] = []
        self._writes: list[_Write] = []

    @property
    def has_room(self) -> bool:
        """Whether another page may wait."""
        return len(self._waiting) * self._store.page_bytes < MAX_WAITING_BYTES

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way."""
        return not (self._batch or self._writes)

    def wants(self, digest: bytes) -> bool:
        """Whether a page is neither in the store nor on its way there, and could get there."""
        if self._store.problem is not None:
            return False
        return digest not in self._waiting and not self._marks.has(digest, self._tier)

    def put(self, digest: bytes, namespace: bytes, row: Row) -> None:
        """Have a page written that is wanted; the row is the writer's from now on."""
        if not self.has_room:
            self.lost += 1
            return
        self.put_pages += 1
        self._waiting.add(digest)
        self._batch.append(StoredPage(digest, namespace, row.data))
        if len(self._batch) >= BATCH or not self.has_room:
            self.send()

    def send(self) -> None:
        """Hand over what was put."""
        if self._batch:
            batch, self._batch = self._batch, []
            future = self._thread.submit(_counted, lambda: self._store.put(batch))
            future.add_done_callback(lambda _: self._tell())
            self._writes.append(_Write([page.digest for page in batch], future))

    def collect(self) -> None:
        """Take note of what is written."""
        while self._writes and self._writes[0].future.done():
            write = self._writes.pop(0)
            count = write.future.result()
            self.written += count
            for index, digest in enumerate(write.digests):
                # What was deleted meanwhile is not waited for, and not there.
                if digest in self._waiting:
                    self._waiting.discard(digest)
                    if index < count:
                        self._marks.add(digest, self._tier)

    def delete(self, digests: Sequence[bytes]) -> None:
        """No page of these is in the store when what is said next is done."""
        self._forget(set(digests))
        self._run(lambda: self._store.delete(digests))

    def forget(self, namespace: bytes | None) -> None:
        """The same for all pages of a namespace, or of all."""
        self._forget({p.digest for p in self._batch if namespace in (None, p.namespace)})
        if namespace is None:
            self._waiting.clear()
        self._run(lambda: self._store.forget(namespace))

    def wait(self, deadline: float) -> None:
        """Until something is written, or the time (monotonic) has come."""
        if self._writes:
            wait([self._writes[0].future], max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Give up what waits to be written, not what is to be deleted; when both have ended."""
        for write in self._writes:
            if write.digests:
                write.future.cancel()
        self._thread.shutdown(wait=True)

    def _forget(self, digests: set[bytes]) -> None:
        self._batch = [page for page in self._batch if page.digest not in digests]
        self._waiting -= digests
        for digest in digests:
            self._marks.remove(digest, self._tier)

    def _run(self, call: Callable[[], int]) -> None:
        self.send()
        self._writes.append(_Write([], self._thread.submit(_counted, call)))


def _counted(call: Callable[[], int]) -> int:
    """What a store has done; 0 where it fails."""
    try:
        return call()
    except Exception:  # no answer ends because of a store: what it has not is computed
        _LOGGER.exception("a page store failed to write or to delete")
        return 0
