"""`Tiers`: pages on their way out of the pool, and back.

    pool ──leaving()──► host memory ──makes room──► store      written by two threads, in batches
      ▲                    │  ▲
      └───restore()────────┘  └────── begin(): read while the request waits to be admitted

A request that is queued has what the store knows of its prompt read into host memory; when it is
admitted, what is there by then is copied into its own pages. Nothing is read for whom nobody
waits. Everything here runs on the engine's thread, but for reads and writes of the store.
Knows no scheduler: that asks whether to wait, and how much came back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from radixchat.engine.request import Request
from radixchat.engine.tiers.cost_gate import CostGate
from radixchat.engine.tiers.host_tier import HostTier
from radixchat.engine.tiers.page_bytes import PageBytes, Row
from radixchat.engine.tiers.page_load import PageLoad
from radixchat.engine.tiers.page_reader import MIN_USEFUL_TOKENS, PageReader
from radixchat.engine.tiers.page_store import PageStore
from radixchat.engine.tiers.page_writer import PageWriter
from radixchat.engine.tiers.write_policy import WRITE_POLICIES
from radixchat.radix.allocation import Allocation, LeavingPages
from radixchat.radix.cache import PrefixCache
from radixchat.radix.node import TOKEN_BYTES
from radixchat.radix.tiers import Tier, page_digests

# Pages that are copied for the writer between two steps, at most; and of a step's time, at most.
PAGES_A_STEP = 8
CHORES_SHARE = 0.02
# What copying a page takes, as long as nobody knows.
ASSUMED_COPY_S = 0.0002
# Paths that wait to be written, at most: of those that come while a store hangs, none is kept.
MAX_PATHS = 64


@dataclass(slots=True)
class TierStats:
    """Counts since the start. restored: tokens that came back into the pool, by where they were.

    read_pages: from the store; used_pages: of these. refused_tokens: were to be read, and were not.
    """

    restored: dict[Tier, int] = field(default_factory=lambda: dict.fromkeys(Tier, 0))
    read_pages: int = 0
    used_pages: int = 0
    refused_tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Path:
    """A path whose pages are to be written when there is time; those before `done` are."""

    namespace: bytes
    tokens: bytes
    digests: list[bytes]
    done: int = 0


class Tiers:
    """The tiers below one engine's pool."""

    def __init__(
        self,
        pages: PageBytes,
        page_size: int,
        host: HostTier,
        gate: CostGate,
        store: PageStore | None = None,
        *,
        store_tier: Tier = Tier.DISK,
        write_policy: str = "write_through_selective",
    ) -> None:
        """store: where pages go from memory; None: they are forgotten."""
        assert write_policy in WRITE_POLICIES, f"write_policy is {write_policy!r}"
        self.host = host
        self.gate = gate
        self.store = store
        self.store_tier = store_tier
        self.stats = TierStats()
        # Called from the store's threads when something is read or written.
        self.tell: Callable[[], None] = lambda: None
        self._pages = pages
        self._page_size = page_size
        self._writes_through = store is not None and write_policy == "write_through_selective"
        self._cache: PrefixCache
        self._writer: PageWriter | None = None
        self._reader: PageReader | None = None
        self._paths: list[_Path] = []
        self._copy_s = ASSUMED_COPY_S
        self._last: tuple[bytes, bytes, list[bytes]] = (b"", b"", [])
        host.on_leave = self._leave_host

    def attach(self, cache: PrefixCache) -> None:
        """Belong to a cache, whose `on_leave` is `leaving`; what the store has is known there."""
        self._cache = cache
        if self.store is not None:
            self._writer = PageWriter(self.store, self.store_tier, cache.marks, lambda: self.tell())
            self._reader = PageReader(
                self.store,
                self.store_tier,
                self._page_size,
                self.host,
                self.gate,
                cache.marks,
                lambda: self.tell(),
            )
            for digest in self.store.known():
                cache.marks.add(digest, self.store_tier)

    # --- out of the pool

    def leaving(self, leaving: LeavingPages) -> None:
        """Pages make room: copy those that are whole to host memory."""
        digests = self._digests(leaving.namespace, leaving.tokens)
        first = leaving.start // self._page_size
        for digest, page in zip(digests[first:], leaving.pages, strict=False):
            self._to_host(digest, leaving.namespace, page)

    def reused(self, tokens: Sequence[int], namespace: bytes, length: int) -> None:
        """A cached prefix was asked for again: it is worth writing, when there is time."""
        pages = length // self._page_size
        writer = self._writer
        if writer is None or not self._writes_through or length < MIN_USEFUL_TOKENS:
            return
        if len(self._paths) >= MAX_PATHS:
            return
        encoded = np.asarray(tokens[: pages * self._page_size], np.int32).tobytes()
        digests = self._digests(namespace, encoded)
        if any(map(writer.wants, digests)):
            self._paths.append(_Path(namespace, encoded, digests))

    @property
    def has_chores(self) -> bool:
        """Whether something is left to be written, and may be."""
        return self._writer is not None and bool(self._paths) and self._writer.has_room

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way to the store or from there, nor waits for it."""
        if self._reader is None or self._writer is None:
            return True
        return not self._paths and self._reader.is_idle and self._writer.is_idle

    def do_chores(self, room: int = PAGES_A_STEP) -> None:
        """Copy a few pages of what was used again for the writer."""
        assert self._writer is not None
        began, before = time.perf_counter(), self._writer.put_pages
        while self._paths and room > 0 and self._writer.has_room:
            path = self._paths.pop(0)
            end = min(len(path.digests), path.done + room)
            done = self._write_path(self._writer, path, end)
            room -= done - path.done
            if done < len(path.digests):
                self._paths.insert(0, replace(path, done=done))
        copied = self._writer.put_pages - before
        if copied:
            self._copy_s += (((time.perf_counter() - began) / copied) - self._copy_s) / 4
        if not self._paths:
            self._writer.send()

    def after_step(self, counts: Sequence[int], seconds: float) -> None:
        """A step has computed so many tokens of each request: learn, and do a little that waits."""
        total = sum(counts)
        # Those that are alone are of answers, and cost a multiple of a prompt's.
        if 2 * sum(count for count in counts if count > 1) >= total:
            self.gate.computed(total, seconds)
        if self._paths:
            self.do_chores(max(1, min(PAGES_A_STEP, int(seconds * CHORES_SHARE / self._copy_s))))

    # --- back

    def begin(self, request: Request) -> None:
        """Have what the store knows of a queued request's prompt read, if that is quicker."""
        encoded = np.asarray(request.tokens, np.int32).tobytes()
        digests = self._digests(request.namespace, encoded)
        # One token is always computed: a page that ends with the prompt is of no use to it.
        digests = digests[: (len(request.tokens) - 1) // self._page_size]
        request.load = PageLoad(digests)
        if self._reader is not None and digests:
            first = self._cache.num_cached(request.tokens, request.namespace) // self._page_size
            self._reader.read(request.load, request.namespace, first)
        for digest in digests:
            if digest in self.host or self.host.is_filling(digest):
                self.host.expect(digest)

    def prefetch(self, tokens: Sequence[int], namespace: bytes) -> None:
        """The same for a prompt that is likely to come."""
        if self._reader is not None:
            encoded = np.asarray(tokens, np.int32).tobytes()
            load = PageLoad(self._digests(namespace, encoded))
            first = self._cache.num_cached(tokens, namespace) // self._page_size
            self._reader.read(load, namespace, first)

    def is_loading(self, request: Request) -> bool:
        """Whether something is being read for a request that waits."""
        load = request.load
        if self._reader is None or load is None or not load.wanted:
            return False
        return self._reader.is_loading(load)

    def bring_back(self, request: Request, allocation: Allocation, leave: int) -> None:
        """For a request that is admitted: what follows its cached tokens is computed by that."""
        self.reused(request.tokens, request.namespace, allocation.num_cached)
        restored = self.restore(request, allocation, leave)
        request.num_computed += sum(restored.values())
        if request.num_cached is None:
            counted = request.of_prompt(request.num_computed) - allocation.num_cached
            request.restored = within(restored, counted)

    def restore(self, request: Request, allocation: Allocation, leave: int) -> dict[Tier, int]:
        """Copy what follows the cached tokens from host memory into a request's own pages.

        leave: so many tokens at the end are computed in any case. Returns how many tokens came
        back, by the tier in which they were.
        """
        load = request.load
        restored: dict[Tier, int] = {}
        if load is None:
            return restored
        size, start = self._page_size, allocation.num_cached
        last = min(len(load.digests), (len(request.tokens) - leave) // size)
        pages = load.digests[start // size : last]
        count = next((i for i, d in enumerate(pages) if d not in self.host), len(pages))
        if count < len(pages) and self.host.is_filling(pages[count]):
            load.reason = f"{self.store_tier.name.lower()} took longer than was worth to wait"
        if count == 0:
            return restored
        verdict = self.gate.admits(Tier.HOST, count)
        if verdict.pages == 0:
            load.reason = verdict.reason
            return restored
        began, position = time.perf_counter(), start
        for index in range(start // size, start // size + verdict.pages):
            digest = load.digests[index]
            row = self.host.get(digest)
            assert row is not None, "it was there a moment ago"
            self._pages.write(allocation.pages[index], row)
            self.host.is_had(digest)
            end = (index + 1) * size
            tier = Tier.HOST if self._reader is None else self._reader.source(digest)
            restored[tier] = restored.get(tier, 0) + end - position
            self.stats.used_pages += tier is not Tier.HOST
            position = end
        # The first of these pages was to begin with slots of another: it has them now.
        allocation.copies.clear()
        self.gate.loaded(Tier.HOST, position - start, time.perf_counter() - began)
        for tier, tokens in restored.items():
            self.stats.restored[tier] += tokens
        return restored

    def collect(self) -> None:
        """Take note of what the threads have done."""
        if self._reader is not None:
            self._reader.collect()
            self.stats.read_pages = self._reader.pages_read
            self.stats.refused_tokens = self._reader.tokens_refused
        if self._writer is not None and self.store is not None:
            self._writer.collect()
            came, went = self.store.news()
            for digest in came:
                self._cache.marks.add(digest, self.store_tier)
            for digest in went:
                self._cache.marks.remove(digest, self.store_tier)

    # --- forgotten

    def forget(self, tokens: Sequence[int], namespace: bytes, start: int) -> None:
        """A path is deleted from position `start` on: no tier has it any more."""
        encoded = np.asarray(tokens, np.int32).tobytes()
        size = self._page_size
        digests = list(page_digests(namespace, encoded, size))[start // size :]
        gone = set(digests)
        self._paths = [path for path in self._paths if gone.isdisjoint(path.digests)]
        for digest in digests:
            self.host.discard(digest)
        self._forgotten(digests)
        if self._writer is not None and digests:
            self._writer.delete(digests)

    def flush(self, namespace: bytes | None) -> None:
        """Forget a namespace, or everything."""
        self._paths = [p for p in self._paths if namespace not in (None, p.namespace)]
        self._forgotten(self.host.discard_all(namespace))
        if self._writer is not None:
            self._writer.forget(namespace)

    def close(self, seconds: float) -> None:
        """Write what is left of the pool and of memory, as long as that takes no longer."""
        if self.store is None or self._writer is None or self._reader is None:
            return
        deadline = time.monotonic() + seconds
        for namespace, tokens in self._cache.paths():
            digests = self._digests(namespace, tokens)
            if len(digests) * self._page_size >= MIN_USEFUL_TOKENS:
                self._paths.append(_Path(namespace, tokens, digests))
        rest = self.host.digests()
        while (self._paths or rest or not self._writer.is_idle) and time.monotonic() < deadline:
            self.do_chores(room=len(self._paths) * 4096)
            while rest and not self._paths and self._writer.has_room:
                digest = rest.pop()  # what was used last comes first
                row = self.host.get(digest)
                if row is not None and self._writer.wants(digest):
                    self._writer.put(digest, self.host.namespace(digest), row.copy())
            self._writer.send()
            self._writer.wait(deadline)
            self._writer.collect()
        self._reader.close()
        self._writer.close()
        self.store.close()

    # --- between

    def _to_host(self, digest: bytes, namespace: bytes, page: int) -> None:
        if digest in self.host or self.host.is_filling(digest):
            return
        row = self.host.begin(digest, namespace, yields=True)
        if row is None:
            if self._writer is not None and self._writer.wants(digest):
                row = np.empty(self._pages.num_bytes, np.uint8)
                self._pages.read(page, row)
                self._writer.put(digest, namespace, row)
            return
        self._pages.read(page, row)
        self.host.end(digest, filled=True)
        self._cache.marks.add(digest, Tier.HOST)

    def _forgotten(self, digests: Sequence[bytes]) -> None:
        """They are not in memory any more."""
        for digest in digests:
            self._cache.marks.remove(digest, Tier.HOST)
        if self._reader is not None:
            self._reader.forget(digests)

    def _leave_host(self, digest: bytes, namespace: bytes, row: Row) -> None:
        self._cache.marks.remove(digest, Tier.HOST)
        if self._reader is not None:
            self._reader.forget([digest])
        if self._writer is not None and self._writer.wants(digest):
            self._writer.put(digest, namespace, row.copy())

    def _write_path(self, writer: PageWriter, path: _Path, end: int) -> int:
        """Copy the pages [done, end) of a path that are still in the pool and not in the store.

        Returns up to where: less than `end` where the writer has no room for more.
        """
        tokens = np.frombuffer(path.tokens, np.int32)
        pages = self._cache.whole_pages(tokens, path.namespace)
        for index in range(path.done, min(end, len(pages))):
            if writer.wants(path.digests[index]):
                if not writer.has_room:
                    return index
                row = np.empty(self._pages.num_bytes, np.uint8)
                self._pages.read(pages[index], row)
                writer.put(path.digests[index], path.namespace, row)
        return end

    def _digests(self, namespace: bytes, tokens: bytes) -> list[bytes]:
        """The names of a path's whole pages; of a path that gets shorter they are known."""
        last_namespace, last_tokens, digests = self._last
        if namespace == last_namespace and last_tokens.startswith(tokens):
            return digests[: len(tokens) // TOKEN_BYTES // self._page_size]
        digests = list(page_digests(namespace, tokens, self._page_size))
        self._last = (namespace, tokens, digests)
        return digests


def within(restored: dict[Tier, int], tokens: int) -> dict[Tier, int]:
    """The first `tokens` of what came back, by where they were; the fastest tier's came first."""
    counted: dict[Tier, int] = {}
    for tier, count in restored.items():
        counted[tier] = min(count, max(tokens, 0))
        tokens -= count
    return counted
