"""`Simulation`: a cache, requests that use it, and a store of K/V that remembers prefixes.

"Computing" a token writes, into the slot that the page table names, a number that stands for
the token's whole prefix and namespace. So whatever is read through a page table or through the
tree can be compared with what should be there: a page that was freed too early, shared too
far, copied from the wrong place or replaced by the wrong one shows at once.

The model of the tree is the set of those numbers (`prefix_model.py`). Only what an eviction leaves
is read back from the tree, and then it must be a subset, exactly the pages asked for must have
gone, and, under LRU, the least recent ones. A mirror and a host tier live on what the cache
tells them.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixchat.radix.allocation import Allocation, LeavingPages
from radixchat.radix.cache import PrefixCache
from radixchat.radix.events import EventLog
from radixchat.radix.tiers import Tier
from radixchat.radix.use import Signal
from radixchat.tests.radix.bystanders import HostTier, Mirror
from radixchat.tests.radix.kv_store import KvStore
from radixchat.tests.radix.prefix_model import PrefixModel
from radixchat.tests.radix.prefix_numbers import PrefixNumbers
from radixchat.tests.radix.tree_view import TreeView


@dataclass(slots=True, eq=False)
class Running:
    """A request: tokens[:num_computed] have K/V in its pages; path: its tokens as prefixes."""

    allocation: Allocation
    namespace: bytes
    tokens: list[int]
    path: list[int]
    num_computed: int
    conversation: str | None = None


class Simulation:
    """Does what an engine does with a cache, and checks everything after each step."""

    def __init__(self, cache: PrefixCache, *, least_recent_first: bool = True) -> None:
        self.cache = cache
        self.least_recent_first = least_recent_first
        self.tree, self.pool = cache._tree, cache._pool
        self.numbers = PrefixNumbers()
        self.store = KvStore(cache.num_pages, cache.page_size)
        self.mirror = Mirror(self.numbers)
        self.host = HostTier(self.numbers, self.store, cache.page_size)
        self.log = cache._events = EventLog()
        cache._on_leave = self._leaving
        self.running: list[Running] = []
        self.seen: list[tuple[bytes, list[int]]] = []
        self.model = PrefixModel(self.numbers)
        self._view = TreeView(self.tree, self.numbers)  # as of the last check

    # What a request does

    def allocate(
        self, tokens: list[int], namespace: bytes = b"", conversation: str | None = None
    ) -> Running | None:
        """Allocate; the tokens found equal the oracle's, or no room and nothing moved."""
        free, known = self.cache.num_free_pages, self.longest_cached(tokens[:-1], namespace)
        found = self._usable(tokens, namespace, known)
        before = self.snapshot() if found is None else None
        allocation = self.cache.allocate(tokens, namespace, conversation)
        if allocation is None:
            assert found is None, f"refused, although there is room after {found} cached tokens"
            assert self.snapshot() == before, "a refusal changed something"
            return None
        assert found is not None, "pages came from nowhere"
        assert allocation.num_cached == found, "not the longest cached prefix"
        if conversation is not None:
            self.cache.observe(conversation, Signal.STARTED)
        self._check_evicted(allocation, tokens[:-1], known)
        needed = -(-len(tokens) // self.cache.page_size) - found // self.cache.page_size
        assert len(allocation.pages) == -(-len(tokens) // self.cache.page_size)
        assert len(allocation.copies) == (1 if found % self.cache.page_size else 0)
        path = self.numbers.of(tokens, namespace)
        request = Running(allocation, namespace, list(tokens), path, found, conversation)
        self.running.append(request)
        self.seen.append((namespace, request.tokens))
        self._evicted(free, needed)
        self.check()
        return request

    def _check_evicted(self, allocation: Allocation, tokens: list[int], known: int) -> None:
        """What is told of recent evictions is true, and told as long as the ring reaches back."""
        path = self.numbers.of(tokens, allocation.namespace)
        if allocation.evicted is None:
            ring = self.cache._recent
            full = len(ring._entries) == ring._max_entries
            assert full or known == len(path) or path[known] not in self.model.evicted, "not told"
            return
        assert known < allocation.evicted.length <= len(path)
        assert self.model.lost.issuperset(path[known : allocation.evicted.length]), "never evicted"

    def extend(self, request: Running, tokens: list[int]) -> bool:
        """Append sampled tokens; False when there was no room and nothing moved."""
        free, total = self.cache.num_free_pages, len(request.tokens) + len(tokens)
        needed = max(0, -(-total // self.cache.page_size) - len(request.allocation.pages))
        room = self.cache.num_pages - len(self._held_pages([]))
        before = self.snapshot() if needed > room else None
        if not self.cache.extend(request.allocation, total):
            assert needed > room, f"{needed} pages were refused while {room} could be had"
            assert self.snapshot() == before, "a refusal changed something"
            return False
        assert needed <= room, "pages came from nowhere"
        assert len(request.allocation.pages) * self.cache.page_size >= total
        request.tokens += tokens
        request.path = self.numbers.of(request.tokens, request.namespace)
        self._evicted(free, needed)
        self.check()
        return True

    def compute(self, request: Running, count: int) -> None:
        """Perform the pending copy, then write the K/V of the next `count` tokens."""
        for copy in request.allocation.copies:
            self.store.copy(copy)
        request.allocation.copies.clear()
        begin, end = request.num_computed, min(request.num_computed + count, len(request.tokens))
        self.store.write(request.allocation.pages, begin, request.path[begin:end])
        request.num_computed = end
        self.check()

    def commit(self, request: Running, length: int) -> None:
        """Commit the first `length` tokens; what was new equals the oracle's."""
        tokens = request.tokens[:length]
        known = self.longest_cached(tokens, request.namespace)
        inserted = self.cache.commit(request.allocation, tokens)
        assert inserted == length - known, f"{inserted} inserted, {length - known} were new"
        assert request.allocation.num_committed == length
        self.model.store(request.path[known:length])
        self.check()

    def release(self, request: Running) -> None:
        """Finish, cancel or preempt, at any point."""
        self.model.use(self._committed(request), request.conversation)
        self.running.remove(request)
        self.cache.release(request.allocation)
        if request.conversation is not None:
            self.cache.observe(request.conversation, Signal.FINISHED)
        self.check()

    def flush(self) -> None:
        """Everything that is not held goes."""
        free = self.cache.num_free_pages
        freed = self.cache.flush()
        assert freed == self.cache.num_free_pages - free
        assert self.cache.num_evictable_pages == 0, "a flush left something behind"
        self._look()
        assert self._view.prefixes == self._held(), "a flush keeps exactly what is held"
        self.model.keep(self._view.prefixes)
        self.check()

    def supersede(self, tokens: list[int], start: int, conversation: str, namespace: bytes) -> None:
        """A hint: it changes the order at most, and flags what only this conversation used."""
        before = self._superseded()
        self.cache.supersede(tokens, start, conversation, namespace)
        self.check()
        length = self.longest_cached(tokens, namespace)
        path = self.numbers.of(tokens[:length], namespace)
        if length < len(tokens):
            # The run that leads to where the cached paths part may be in one node with another.
            branches = self.model.branches()
            while path and branches[path[-1]] == 1:
                path = path[:-1]
        left, after = set(path[start:]), self._superseded()
        if self.cache.page_size == 1:
            own = {prefix for prefix in left if self.model.cached[prefix].users == {conversation}}
            assert after >= own - self._held(), "left, and not flagged"
        below = self.model.below({path[-1]}) if length == len(tokens) else set()
        assert after - before <= left | below, "flagged, and not left"

    def purge(self, tokens: list[int], start: int, conversation: str, namespace: bytes) -> None:
        """Of the path nothing is left beyond `start` but what others need; theirs all stays."""
        path, before = self.numbers.of(tokens, namespace), self._view.prefixes
        free = self.cache.num_free_pages
        freed = self.cache.purge(tokens, conversation, namespace, start=start)
        assert freed == self.cache.num_free_pages - free
        assert not self.host.arrived, "what was purged was copied"
        self._look()
        left, held = self._view.prefixes, self._held()
        assert held <= left, "held, and yet purged"
        for prefix in before - left - set(path):
            assert self.model.cached[prefix].users == {conversation}, "purged another's"
        assert left.issuperset(path[:start]) or not before.issuperset(path[:start])
        needed = {self.numbers.parents[prefix] for prefix in left}
        for prefix in path[start:]:
            assert prefix not in left or prefix in needed | held, "purged, and yet there"
        if self.cache.page_size == 1:
            for tip in left.intersection(self.model.below({path[-1]})) - needed - held:
                users = self.model.cached[tip].users
                assert users != {conversation}, "nobody else's, and yet there"
        self.host.forget(path, start)
        self.model.forget(path, left)
        self.check()
        self._check_match(tokens, namespace)

    def lose_copies(self, tokens: list[int], start: int, namespace: bytes) -> None:
        """The host tier drops its copies of a path from `start` on."""
        self.host.lose(self.numbers.of(tokens, namespace), start)
        self.cache.move(tokens, start, Tier.HOST, None, namespace)
        self.check()
        self._check_match(self.seen[-1][1], namespace)

    def observe(self, conversation: str, signal: Signal) -> None:
        """A hint: it changes the order at most."""
        self.cache.observe(conversation, signal)
        self.check()

    def probe(self, tokens: list[int], namespace: bytes = b"") -> None:
        """Look without touching: the answer equals the oracle's and nothing changes."""
        before = self.snapshot()
        self._check_match(tokens, namespace)
        assert self.snapshot() == before, "a look changed something"

    def _check_match(self, tokens: list[int], namespace: bytes) -> None:
        match, length = self.cache.match(tokens, namespace), self.longest_cached(tokens, namespace)
        assert match.length == length
        path = self.numbers.of(tokens, namespace)
        above = path[length - 1] if length else namespace
        continued = self.model.branches()[above] > 0
        assert match.diverges == (continued and length < len(tokens))
        spans = [(span.tier, span.start, span.end) for span in match.spans]
        reach = self.host.reach(path, length)
        assert spans == [
            *([(Tier.DEVICE, 0, length)] if length else []),
            *([(Tier.HOST, length, reach)] if reach > length else []),
        ]

    def drain(self) -> None:
        """Release and flush everything; the cache is as new."""
        while self.running:
            self.release(self.running[-1])
        self.flush()
        assert self.cache.num_free_pages == self.cache.num_pages, "pages leaked"
        assert self.cache.num_nodes == self.cache.num_cached_tokens == len(self.tree.roots) == 0

    # What must be true

    def check(self) -> None:
        """The cache's own invariants, and every K/V slot that anybody could read."""
        self.cache.check()
        self.store.erase(self.pool._free)
        self._look()
        assert self._view.prefixes == self.model.cached.keys(), "the tree and its model differ"
        self.mirror.follow(self.log)
        assert self.mirror.prefixes == self.model.cached.keys(), "the mirror and the tree differ"
        for namespace, tokens, start in self.host.store_arrived():
            ids = memoryview(tokens).cast("i").tolist()
            self.cache.move(ids, start, Tier.DEVICE, Tier.HOST, namespace)
        self._check_uses()
        for request in self.running:
            self._check_request(request)

    def _look(self) -> None:
        """Walk the tree once; each node's pages hold all tokens of the path that they touch."""
        self._view = TreeView(self.tree, self.numbers)
        for page, prefixes in self._view.held_pages():
            assert self.store.holds(page, prefixes), "a node's page has another's K/V"

    def _check_uses(self) -> None:
        """What is known of each page's last use covers its tokens; with one a page, it is exact."""
        for use, own in self._view.uses():
            for past in {self.model.cached[prefix] for prefix in own}:
                shared, reused = len(past.users) > 1, past.uses > 1
                if self.cache.page_size == 1:
                    assert use.stamp == past.stamp, "used at another time"
                    assert (use.reused, use.shared) == (reused, shared), "flagged wrongly"
                    assert use.conversation == past.last, "another's"
                assert use.stamp >= past.stamp, "used later than that"
                assert use.reused or not reused, "reused, and not flagged"
                assert use.shared or not shared, "shared, and not flagged"
                assert not (use.superseded and shared), "shared, and yet superseded"

    def _check_request(self, request: Running) -> None:
        prefixes = request.path[: request.num_computed]
        pages = list(request.allocation.pages)
        for copy in request.allocation.copies:
            pages[pages.index(copy.destination)] = copy.source
        size = self.cache.page_size
        for index, begin in enumerate(range(0, len(prefixes), size)):
            computed = prefixes[begin : begin + size]
            assert self.store.holds(pages[index], computed), "a request's page has another's K/V"
        assert self.model.cached.keys() >= set(self._committed(request)), "held, and yet evicted"

    def longest_cached(self, tokens: list[int], namespace: bytes) -> int:
        """The oracle: the longest common prefix with everything that was committed."""
        return self.model.length(self.numbers.of(tokens, namespace))

    def _usable(self, tokens: list[int], namespace: bytes, found: int) -> int | None:
        """The whole match, or what is left of it at the last page border that gives room."""
        size, path = self.cache.page_size, self.numbers.of(tokens, namespace)
        while True:
            needed = -(-len(tokens) // size) - found // size
            room = self.cache.num_pages - len(self._held_pages(path[:found]))
            if needed <= room:
                return found
            if found == 0:
                assert self.running, "alone in the pool, and yet no room"
                return None
            found = (found - 1) // size * size

    def snapshot(self) -> object:
        """Everything that a refused or read-only operation must leave alone."""
        views = TreeView(self.tree, self.numbers).nodes
        nodes = [
            (
                view.path,
                view.pages,
                view.locks,
                view.node.use,
                view.node.marks,
                view.node.ticket > 0,
            )
            for view in sorted(views, key=lambda view: view.path)
        ]
        tables = [(list(r.allocation.pages), list(r.allocation.copies)) for r in self.running]
        return nodes, list(self.pool._free), list(self.pool._references), tables, self.tree._now

    def _evicted(self, free: int, needed: int) -> None:
        """Exactly the missing pages went; one more when two nodes no longer need one each."""
        if needed <= free:
            assert self.cache.num_free_pages == free - needed, "evicted without need"
            return
        before = self._view.contents()
        self._look()
        left = self._view.prefixes
        gone = before.keys() - self._view.contents().keys()
        spare = self.cache.num_free_pages
        merged = any(before[page] & left for page in gone)
        assert spare == 0 or (spare == 1 and merged), "evicted more than needed"
        assert left <= self.model.cached.keys(), "an eviction added something"
        lost = max(
            (past.stamp for p, past in self.model.cached.items() if p not in left), default=0
        )
        self.model.keep(self._view.prefixes)
        if not self.least_recent_first:
            return
        for view in self._view.nodes:
            if view.is_leaf and view.pages and not view.locks:
                tip = (len(view.path) - 1) // self.cache.page_size * self.cache.page_size
                used = max(self.model.cached[prefix].stamp for prefix in view.path[tip:])
                assert used >= lost, "not the least recently used"

    def _superseded(self) -> set[int]:
        """The prefixes of unheld nodes whose branch was left, as far as the tree says so."""
        return {prefix for use, own in self._view.uses() if use.superseded for prefix in own}

    def _leaving(self, leaving: LeavingPages) -> None:
        assert not set(leaving.pages).intersection(self.pool._free), "gone before they leave"
        self.host.take(leaving)

    def _held(self) -> set[int]:
        """The prefixes that running requests have committed."""
        return {prefix for request in self.running for prefix in self._committed(request)}

    def _held_pages(self, matched: list[int]) -> set[int]:
        """Pages that are not to be had while these prefixes are matched: all that anybody needs."""
        pages = {page for request in self.running for page in request.allocation.pages}
        return pages | self._view.pinned(matched)

    def _committed(self, request: Running) -> list[int]:
        return request.path[: request.allocation.num_committed]
