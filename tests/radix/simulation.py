"""`Simulation`: a cache, requests that use it, and a store of K/V that remembers prefixes.

"Computing" a token writes, into the slot that the page table names, a number that stands for
the token's whole prefix and namespace. So whatever is read through a page table or through the
tree can be compared with what should be there: a page that was freed too early, shared too
far, copied from the wrong place or replaced by the wrong one shows at once. Free pages are
overwritten.

The model of the tree is the set of those numbers, when each was last in use, and by which
conversations. It knows nothing of nodes or pages; only what an eviction leaves is read back from
the tree, and then it must be a subset, exactly the pages asked for must have gone, and, under
LRU, the least recent ones. A mirror and a host tier live on what the cache tells them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from radixchat.radix.allocation import Allocation
from radixchat.radix.cache import PrefixCache
from radixchat.radix.events import EventLog
from radixchat.radix.node import Node
from radixchat.radix.tiers import Tier
from radixchat.radix.use import Signal
from radixchat.tests.radix.bystanders import HostTier, Mirror

FREE = -1


@dataclass(slots=True, eq=False)
class Running:
    """A request: tokens[:num_computed] have K/V in the pages of its allocation."""

    allocation: Allocation
    namespace: bytes
    tokens: list[int]
    num_computed: int
    conversation: str | None = None


class Simulation:
    """Does what an engine does with a cache, and checks everything after each step."""

    def __init__(self, cache: PrefixCache, *, least_recent_first: bool = True) -> None:
        self.cache = cache
        self.least_recent_first = least_recent_first
        self.users: dict[int, list[str | None]] = {}  # of each cached prefix, one for each use
        self.mirror = Mirror(self._encoded_ids)
        self.host = HostTier(self._encoded_ids, cache.page_size)
        self.lost: set[int] = set()  # gone, and not stored again since
        self.purges = 0
        self.log = cache._events = EventLog()
        cache._on_leave = lambda leaving: self.host.take(leaving, self._stored)
        self.tree, self.pool = cache._tree, cache._pool
        self.store = np.full((cache.num_pages, cache.page_size), FREE, np.int64)
        self.running: list[Running] = []
        self.seen: list[tuple[bytes, list[int]]] = []
        self.cached: dict[int, int] = {}  # prefixes in the tree, and when they were last in use
        self._contents: dict[int, set[int]] = {}  # the same by page, as of the last look
        self._clock = 0
        self._prefixes: dict[tuple[int | bytes, int], int] = {}
        self._parents: dict[int, int | bytes] = {}

    # What a request does

    def allocate(
        self, tokens: list[int], namespace: bytes = b"", conversation: str | None = None
    ) -> Running | None:
        """Allocate; the tokens found equal the oracle's, or no room and nothing moved."""
        before, free = self.snapshot(), self.cache.num_free_pages
        found = self._usable(tokens, namespace)
        allocation = self.cache.allocate(tokens, namespace, conversation)
        if allocation is None:
            assert found is None, f"refused, although there is room after {found} cached tokens"
            assert self.snapshot() == before, "a refusal changed something"
            return None
        assert found is not None, "pages came from nowhere"
        assert allocation.num_cached == found, "not the longest cached prefix"
        self._check_evicted(allocation, tokens[:-1], self.longest_cached(tokens[:-1], namespace))
        needed = -(-len(tokens) // self.cache.page_size) - found // self.cache.page_size
        assert len(allocation.pages) == -(-len(tokens) // self.cache.page_size)
        assert len(allocation.copies) == (1 if found % self.cache.page_size else 0)
        request = Running(allocation, namespace, list(tokens), found, conversation)
        self.running.append(request)
        self.seen.append((namespace, request.tokens))
        self._evicted(free, needed)
        self.check()
        return request

    def _check_evicted(self, allocation: Allocation, tokens: list[int], known: int) -> None:
        """What is told of recent evictions is true, and told when it is the case."""
        path = self._prefix_ids(tokens, allocation.namespace)
        if allocation.evicted is None:
            assert self.purges or known == len(path) or path[known] not in self.lost
            return
        assert known < allocation.evicted.length <= len(path)
        assert self.lost.issuperset(path[known : allocation.evicted.length]), "never evicted"

    def extend(self, request: Running, tokens: list[int]) -> bool:
        """Append sampled tokens; False when there was no room and nothing moved."""
        before, free = self.snapshot(), self.cache.num_free_pages
        total = len(request.tokens) + len(tokens)
        needed = max(0, -(-total // self.cache.page_size) - len(request.allocation.pages))
        room = self.cache.num_pages - len(self._held_pages([], b""))
        if not self.cache.extend(request.allocation, total):
            assert needed > room, f"{needed} pages were refused while {room} could be had"
            assert self.snapshot() == before, "a refusal changed something"
            return False
        assert needed <= room, "pages came from nowhere"
        assert len(request.allocation.pages) * self.cache.page_size >= total
        request.tokens += tokens
        self._evicted(free, needed)
        self.check()
        return True

    def compute(self, request: Running, count: int) -> None:
        """Perform the pending copy, then write the K/V of the next `count` tokens."""
        for copy in request.allocation.copies:
            slots = self.store[copy.source, : copy.num_slots]
            self.store[copy.destination, : copy.num_slots] = slots
        request.allocation.copies.clear()
        end = min(request.num_computed + count, len(request.tokens))
        prefixes = self._prefix_ids(request.tokens[:end], request.namespace)
        for position in range(request.num_computed, end):
            self.store[self._slot(request.allocation.pages, position)] = prefixes[position]
        request.num_computed = end
        self.check()

    def commit(self, request: Running, length: int) -> None:
        """Commit the first `length` tokens; what was new equals the oracle's."""
        tokens = request.tokens[:length]
        known = self.longest_cached(tokens, request.namespace)
        inserted = self.cache.commit(request.allocation, tokens)
        assert inserted == length - known, f"{inserted} inserted, {length - known} were new"
        assert request.allocation.num_committed == length
        for prefix in self._prefix_ids(tokens, request.namespace):
            self.cached.setdefault(prefix, self._clock)
            self.lost.discard(prefix)
        self.check()

    def release(self, request: Running) -> None:
        """Finish, cancel or preempt, at any point."""
        self._clock += 1
        for prefix in self._committed(request):
            self.cached[prefix] = self._clock
            self.users.setdefault(prefix, []).append(request.conversation)
        self.running.remove(request)
        self.cache.release(request.allocation)
        self.check()

    def flush(self) -> None:
        """Everything that is not held goes."""
        free = self.cache.num_free_pages
        freed = self.cache.flush()
        assert freed == self.cache.num_free_pages - free
        assert self.cache.num_evictable_pages == 0, "a flush left something behind"
        left = self._tree_prefixes()
        held = {prefix for request in self.running for prefix in self._committed(request)}
        assert left == held, "a flush keeps exactly what is held"
        self._keep(left)
        self.check()

    def supersede(self, tokens: list[int], start: int, conversation: str, namespace: bytes) -> None:
        """A hint: it changes the order at most, and flags what only this conversation used."""
        self.cache.supersede(tokens, start, conversation, namespace)
        held = {prefix for request in self.running for prefix in self._committed(request)}
        left = set(self._prefix_ids(tokens, namespace)[start:]) - held
        for prefix, superseded in self._flags().items():
            if prefix in left and set(self.users[prefix]) == {conversation}:
                assert superseded, "left, and not flagged"
        self.check()

    def purge(self, tokens: list[int], start: int, conversation: str, namespace: bytes) -> None:
        """Of the path nothing is left beyond `start` but what others need; theirs all stays."""
        path = self._prefix_ids(tokens, namespace)
        free, before = self.cache.num_free_pages, self._tree_prefixes()
        freed = self.cache.purge(tokens, conversation, namespace, start=start)
        assert freed == self.cache.num_free_pages - free
        left = self._tree_prefixes()
        held = {prefix for request in self.running for prefix in self._committed(request)}
        assert held <= left, "held, and yet purged"
        for prefix in before - left - set(path):
            assert set(self.users[prefix]) == {conversation}, "purged another's"
        assert left.issuperset(path[:start]) or not before.issuperset(path[:start])
        needed = {self._parents[prefix] for prefix in left}
        for prefix in path[start:]:
            assert prefix not in left or prefix in needed | held, "purged, and yet there"
        self.host.copies -= set(self.host.ends(path, 0)[start // self.cache.page_size :])
        assert not self.host.arrived, "what was purged was copied"
        self._keep(left)
        self.purges += 1
        self.check()

    def lose_copies(self, tokens: list[int], start: int, namespace: bytes) -> None:
        """The host tier drops its copies of a path from `start` on."""
        self.host.copies -= set(self.host.ends(self._prefix_ids(tokens, namespace), start))
        self.cache.move(tokens, start, Tier.HOST, None, namespace)
        self.check()

    def observe(self, conversation: str, signal: Signal) -> None:
        """A hint: it changes the order at most."""
        self.cache.observe(conversation, signal)
        self.check()

    def probe(self, tokens: list[int], namespace: bytes = b"") -> None:
        """Look without touching: the answer equals the oracle's and nothing changes."""
        before = self.snapshot()
        match, length = self.cache.match(tokens, namespace), self.longest_cached(tokens, namespace)
        assert match.length == length
        path = self._prefix_ids(tokens, namespace)
        above = path[length - 1] if length else namespace
        continued = any(self._parents[prefix] == above for prefix in self.cached)
        assert match.diverges == (continued and length < len(tokens))
        ends = [(span.tier, span.end) for span in match.spans]
        reach = self.host.reach(path, length)
        assert ends == [
            *([(Tier.DEVICE, length)] if length else []),
            *([(Tier.HOST, reach)] if reach > length else []),
        ]
        assert [span.start for span in match.spans] == [0, length][: len(ends)] or length == 0
        assert self.snapshot() == before, "a look changed something"

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
        self.store[list(self.pool._free)] = FREE
        assert self._tree_prefixes() == self.cached.keys(), "the tree and its model differ"
        self.mirror.follow(self.log)
        assert self.mirror.prefixes == self.cached.keys(), "the mirror and the tree differ"
        for namespace, tokens, start in self.host.arrived:
            self.cache.move(_decoded(tokens), start, Tier.DEVICE, Tier.HOST, namespace)
            self.host.copies.update(self.host.ends(self._encoded_ids(namespace, tokens), start))
        self.host.arrived.clear()
        self._check_uses()
        for request in self.running:
            self._check_request(request)

    def _check_request(self, request: Running) -> None:
        prefixes = self._prefix_ids(request.tokens, request.namespace)
        pages = list(request.allocation.pages)
        for copy in request.allocation.copies:
            pages[pages.index(copy.destination)] = copy.source
        size = self.cache.page_size
        for index, begin in enumerate(range(0, request.num_computed, size)):
            computed = prefixes[begin : min(begin + size, request.num_computed)]
            stored = self._stored(pages[index], len(computed))
            assert stored == computed, f"page {index} of a request has another's K/V"
        assert self.cached.keys() >= set(self._committed(request)), "held, and yet evicted"

    def longest_cached(self, tokens: list[int], namespace: bytes) -> int:
        """The oracle: the longest common prefix with everything that was committed."""
        length = 0
        for prefix in self._prefix_ids(tokens, namespace):
            if prefix not in self.cached:
                break
            length += 1
        return length

    def _usable(self, tokens: list[int], namespace: bytes) -> int | None:
        """The whole match, or what is left of it at the last page border that gives room."""
        size = self.cache.page_size
        found = min(self.longest_cached(tokens, namespace), len(tokens) - 1)
        while True:
            needed = -(-len(tokens) // size) - found // size
            room = self.cache.num_pages - len(self._held_pages(tokens[:found], namespace))
            if needed <= room:
                return found
            if found == 0:
                assert self.running, "alone in the pool, and yet no room"
                return None
            found = (found - 1) // size * size

    def snapshot(self) -> object:
        """Everything that a refused or read-only operation must leave alone."""
        nodes = [
            (path, tuple(node.pages), node.locks, node.use, node.marks, node.ticket > 0)
            for path, node in sorted(self._paths(), key=lambda found: found[0])
        ]
        tables = [(list(r.allocation.pages), list(r.allocation.copies)) for r in self.running]
        return nodes, list(self.pool._free), list(self.pool._references), tables, self.tree._now

    def _evicted(self, free: int, needed: int) -> None:
        """Exactly the missing pages went; one more when two nodes no longer need one each."""
        if needed <= free:
            assert self.cache.num_free_pages == free - needed, "evicted without need"
            return
        before = self._contents
        left = self._tree_prefixes()
        gone = before.keys() - self._contents.keys()
        spare = self.cache.num_free_pages
        merged = any(before[page] & left for page in gone)
        assert spare == 0 or (spare == 1 and merged), "evicted more than needed"
        assert left <= self.cached.keys(), "an eviction added something"
        lost = max((used for prefix, used in self.cached.items() if prefix not in left), default=0)
        self._keep(left)
        if not self.least_recent_first:
            return
        for path, node in self._paths():
            if not node.locks and not node.children and node.parent is not None:
                tip = (node.end - 1) // self.cache.page_size * self.cache.page_size
                used = max(self.cached[prefix] for prefix in path[tip:])
                assert used >= lost, "not the least recently used"

    def _keep(self, left: set[int]) -> None:
        self.lost |= self.cached.keys() - left
        self.cached = {prefix: self.cached[prefix] for prefix in left}
        self.users = {prefix: uses for prefix, uses in self.users.items() if prefix in left}

    def _check_uses(self) -> None:
        """With pages of one token, what is known of each token's last use is exact."""
        for prefix, superseded in self._flags().items():
            assert not superseded or len(set(self.users[prefix])) == 1, "flagged, and shared"
        if self.cache.page_size > 1:
            return
        for path, node in self._paths():
            if node.locks or node.parent is None:
                continue
            begins = [node.start, *(index for index, _ in node.marks), node.end]
            uses = [*(use for _, use in node.marks), node.use]
            for begin, end, use in zip(begins, begins[1:], uses, strict=False):
                for prefix in path[begin:end]:
                    users = self.users[prefix]
                    assert use.stamp == self.cached[prefix]
                    assert use.conversation == users[-1]
                    assert use.reused == (len(users) > 1)
                    assert use.shared == (len(set(users)) > 1)

    def _flags(self) -> dict[int, bool]:
        """Which unheld prefixes are flagged as superseded; with pages of one token only."""
        flags: dict[int, bool] = {}
        for path, node in self._paths() if self.cache.page_size == 1 else ():
            begins = [node.start, *(index for index, _ in node.marks), node.end]
            for begin, end, use in zip(
                begins, begins[1:], [*(use for _, use in node.marks), node.use], strict=False
            ):
                if not node.locks:
                    flags.update(dict.fromkeys(path[begin:end], use.superseded))
        return flags

    def _tree_prefixes(self) -> set[int]:
        """The prefixes in the tree; each node's pages hold all tokens of the path they touch."""
        size, self._contents = self.cache.page_size, {}
        for path, node in self._paths():
            for index, page in enumerate(node.pages, node.start // size):
                held = path[index * size : (index + 1) * size]
                assert self._stored(page, len(held)) == held, "a node's page has another's K/V"
                own = held[max(0, node.start - index * size) :]
                self._contents.setdefault(page, set()).update(own)
        return set().union(*self._contents.values())

    def _paths(self) -> Iterator[tuple[list[int], Node]]:
        """Every node with the prefixes of its path, parents first."""
        paths: dict[Node, list[int]] = {}
        for namespace, root in self.tree.roots.items():
            paths[root] = []
            waiting: list[Node] = [root]
            while waiting:
                node = waiting.pop()
                if node.parent is not None:
                    above = paths[node.parent]
                    tokens = memoryview(node.key).cast("i").tolist()
                    paths[node] = above + self._prefix_ids(
                        tokens, above[-1] if above else namespace
                    )
                yield paths[node], node
                waiting.extend(node.children.values())

    def _held_pages(self, tokens: list[int], namespace: bytes) -> set[int]:
        """Pages that are not to be had while `tokens` are matched: all that anybody needs."""
        pages = {page for request in self.running for page in request.allocation.pages}
        matched = set(self._prefix_ids(tokens, namespace))
        size = self.cache.page_size
        for path, node in self._paths():
            if node.locks:
                pages.update(node.pages)
            elif (count := sum(prefix in matched for prefix in path)) > node.start:
                pages.update(node.pages[: -(-count // size) - node.start // size])
        return pages

    def _prefix_ids(self, tokens: list[int], above: int | bytes) -> list[int]:
        """One number for each prefix that ends in `tokens`, below a prefix or a namespace."""
        prefixes: list[int] = []
        for token in tokens:
            number = self._prefixes.setdefault((above, token), len(self._prefixes))
            self._parents[number] = above
            above = number
            prefixes.append(above)
        return prefixes

    def _encoded_ids(self, namespace: bytes, tokens: bytes) -> list[int]:
        return self._prefix_ids(_decoded(tokens), namespace)

    def _committed(self, request: Running) -> list[int]:
        tokens = request.tokens[: request.allocation.num_committed]
        return self._prefix_ids(tokens, request.namespace)

    def _stored(self, page: int, count: int) -> list[int]:
        stored: list[int] = self.store[page, :count].tolist()
        return stored

    def _slot(self, pages: list[int], position: int) -> tuple[int, int]:
        return pages[position // self.cache.page_size], position % self.cache.page_size


def _decoded(tokens: bytes) -> list[int]:
    return memoryview(tokens).cast("i").tolist()
