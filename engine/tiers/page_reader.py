"""`PageReader`: pages on their way from a store into host memory, for those who wait.

    missing  [0 … 8) [8 … 16) [16 … 24) …     two threads take the parts in order: what is late is
             thread 1 thread 2 thread 1       the end, and the beginning is of use without it

Used on one thread, but for the store itself. Knows no pool and no request.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from radixchat.engine.tiers.cost_gate import CostGate, Verdict
from radixchat.engine.tiers.host_tier import HostTier
from radixchat.engine.tiers.page_bytes import Row
from radixchat.engine.tiers.page_load import PageLoad
from radixchat.engine.tiers.page_store import PageStore
from radixchat.radix.tiers import Tier, TierMarks

_LOGGER = logging.getLogger(__name__)

# A shorter piece is computed as quickly as it is looked for, and not worth a write.
MIN_USEFUL_TOKENS = 64
READERS = 2
# Pages that one thread reads, at most, before the next may begin with what follows.
PAGES_A_READ = 8
# After its deadline a store has so long to say what it has; then nobody waits for it any more.
GRACE_S = 0.02


@dataclass(frozen=True, slots=True)
class _Read:
    """Pages that a thread reads, until a deadline; `future` has how many came, and the seconds."""

    digests: list[bytes]
    deadline: float
    future: Future[tuple[int, float]]


class PageReader:
    """Reads from one store. pages_read: those that came; tokens_refused: by the gate.

    unused: pages in memory that nobody has used since they were read.
    """

    def __init__(
        self,
        store: PageStore,
        tier: Tier,
        page_size: int,
        host: HostTier,
        gate: CostGate,
        marks: TierMarks,
        tell: Callable[[], None],
    ) -> None:
        """marks: of what is where; the store is its `tier`. tell: called from a reader's thread
        when `collect` finds something.
        """
        self.pages_read = 0
        self.tokens_refused = 0
        self.unused: set[bytes] = set()
        self._store = store
        self._tier = tier
        self._page_size = page_size
        self._host = host
        self._gate = gate
        self._marks = marks
        self._tell = tell
        self._threads = ThreadPoolExecutor(READERS, "page-reader")
        self._reads: list[_Read] = []

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being read."""
        return not self._reads

    def read(self, load: PageLoad, namespace: bytes, first: int) -> None:
        """Read the pages from index `first` on that the store has, up to the first that nobody has.

        What is in memory already, or on its way there, is not read again.
        """
        missing: list[bytes] = []
        here = 0
        for digest in load.digests[first:]:
            if self._host.get(digest) is not None:
                here += 1  # and it does not make room for the others
                continue
            if self._host.is_filling(digest):
                load.wanted.add(digest)
            elif self._marks.has(digest, self._tier):
                missing.append(digest)
            else:
                break
        tokens = len(missing) * self._page_size
        verdict = Verdict(0)
        if tokens >= MIN_USEFUL_TOKENS:
            verdict = self._gate.admits(self._tier, len(missing))
            load.reason = verdict.reason
            self.tokens_refused += tokens - verdict.pages * self._page_size
        missing = missing[: min(verdict.pages, max(0, self._host.num_available - here))]
        # Who waits for others' pages too waits as long as for all of them.
        waited = (len(missing) + len(load.wanted)) * self._page_size
        deadline = time.monotonic() + self._gate.patience(waited)
        load.deadline = deadline + GRACE_S
        size = max(1, min(PAGES_A_READ, -(-len(missing) // READERS)))
        for start in range(0, len(missing), size):
            part = missing[start : start + size]
            load.wanted.update(self._read_part(part, namespace, deadline))

    def is_loading(self, load: PageLoad) -> bool:
        """Whether something is being read that is still worth to be waited for."""
        load.wanted = {digest for digest in load.wanted if self._host.is_filling(digest)}
        return bool(load.wanted) and time.monotonic() < load.deadline

    def collect(self) -> None:
        """Take note of what was read."""
        for read in [read for read in self._reads if read.future.done()]:
            self._reads.remove(read)
            count, seconds = read.future.result()
            for index, digest in enumerate(read.digests):
                if self._host.end(digest, filled=index < count):
                    self._marks.add(digest, Tier.HOST)
                    self.unused.add(digest)
                elif index == count and time.monotonic() < read.deadline:
                    self._marks.remove(digest, self._tier)  # damaged or gone
            self.pages_read += count
            self._gate.loaded(self._tier, count * self._page_size, seconds)

    def source(self, digest: bytes) -> Tier:
        """Where a page in memory has come from, for who uses it first; then it is memory's own."""
        tier = self._tier if digest in self.unused else Tier.HOST
        self.unused.discard(digest)
        return tier

    def forget(self, digests: Iterable[bytes]) -> None:
        """These pages are not in memory any more."""
        self.unused.difference_update(digests)

    def close(self) -> None:
        """Give up what waits, when the reads that run have ended."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _read_part(self, digests: list[bytes], namespace: bytes, deadline: float) -> list[bytes]:
        """Have as many read as memory has room for; which."""
        rows: list[Row] = []
        for digest in digests:
            row = self._host.begin(digest, namespace)
            if row is None:
                break
            rows.append(row)
        digests = digests[: len(rows)]
        future = self._threads.submit(self._get, digests, rows, deadline)
        self._reads.append(_Read(digests, deadline, future))
        future.add_done_callback(lambda _: self._tell())
        return digests

    def _get(self, digests: list[bytes], rows: list[Row], deadline: float) -> tuple[int, float]:
        """On a thread of the store."""
        began, count = time.perf_counter(), 0
        try:
            count = self._store.get(digests, [row.data for row in rows], deadline)
        except Exception:  # no answer ends because of a store: what it does not give is computed
            _LOGGER.exception("a page store failed to read")
        return count, time.perf_counter() - began
