"""`PrefixCache` = tree + pool, and who owns which page.

Integers in, integers out. Nothing here touches K/V: the engine writes each token's K/V into
the slot that the page table names, and performs the copies that an allocation asks for.

Every page is in exactly one state:

    free      in the pool
    shared    in the tree: one reference from each node whose span touches it
    private   held by one allocation alone

An allocation's page table, page size 4, after `allocate` found 6 of its 11 tokens cached:

    index           0             1             2
    page table      7             9             2
    slots           x x x x       x x . .       . . . .
                    shared        private, asks PageCopy(source=3, destination=9, num_slots=2)
                    └ locked: the path to token 6, with page 3 that the copy reads

The last matched page is only partly its own, so it is copied: later slots of a shared page
belong to whoever wrote the earlier ones. `commit` of 9 tokens then gives the tree a node
[6, 9) with the pages 9 and 2. Both are now shared, but page 2 has free slots, which only this
allocation may fill: slots once committed never change, and the next commit carries on there.

When `commit` finds that the tokens are in the tree already (another request computed the same
ones), the pages that the found path covers *whole* are replaced in the page table by those of
the tree, and then the allocation's own are freed. A page that is covered in part stays the
allocation's own, for it goes on writing there; it is private until tokens of it are inserted.

An allocation locks the path to its last committed token, so nothing it reads is evicted, and
nodes on that path are split but never merged. `release` is the only way out.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import numpy as np

from radixchat.radix.allocation import (
    Allocation,
    EvictedPrefix,
    LeavingPages,
    Match,
    PageCopy,
    Tokens,
)
from radixchat.radix.events import EventLog, Evicted, Moved, RecentEvictions, Stored
from radixchat.radix.eviction import EvictionPolicy, LruPolicy
from radixchat.radix.invariants import check_tree
from radixchat.radix.node import TOKEN_BYTES, Node
from radixchat.radix.picture import NodeView, picture
from radixchat.radix.pool import PagePool
from radixchat.radix.tenants import TenantOrder
from radixchat.radix.tiers import Span, Tier, TierMarks
from radixchat.radix.tree import RadixTree
from radixchat.radix.use import Signal


class PrefixCache:
    """Shares the K/V of equal prefixes among requests, exact to the token."""

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        policy: EvictionPolicy | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        events: EventLog | None = None,
        on_leave: Callable[[LeavingPages], None] | None = None,
    ) -> None:
        """A pool of `num_pages` pages and nothing cached.

        policy: least recently used if None. clock: seconds; the same as the policy's, if that
        has one. events: where to log what happens. on_leave: told of pages that are evicted
        while their K/V is still there, the place to copy it to another tier; it must not call
        the cache, and hears nothing of what is purged.
        """
        if page_size < 1:
            raise ValueError(f"page_size is {page_size}; it must be at least 1")
        self.num_pages = num_pages
        self.page_size = page_size
        self._pool = PagePool(num_pages)
        self._tree = RadixTree(self._pool, page_size, policy or LruPolicy(), self._leaving)
        self._clock = clock
        self._events = events
        self._on_leave = on_leave
        self._recent = RecentEvictions()
        self._marks = TierMarks(page_size)
        self._live: set[Allocation] = set()

    @property
    def marks(self) -> TierMarks:
        """Which pages have copies below the pool; whoever moves them says so here."""
        return self._marks

    @property
    def has_tenants(self) -> bool:
        """Whether namespaces have floors or quotas."""
        return isinstance(self._tree.policy, TenantOrder)

    @property
    def num_free_pages(self) -> int:
        """Pages that hold nothing."""
        return self._pool.num_free

    @property
    def num_evictable_pages(self) -> int:
        """Cached pages that no live allocation needs: free on demand."""
        return self._tree.num_evictable

    @property
    def num_cached_pages(self) -> int:
        """Pages in the tree, held or not; takes O(live allocations)."""
        private = sum(len(live.pages) - live.num_shared for live in self._live)
        return self.num_pages - self._pool.num_free - private

    @property
    def num_cached_tokens(self) -> int:
        """Tokens in the tree."""
        return self._tree.num_tokens

    @property
    def num_evicted_tokens(self) -> int:
        """Tokens dropped to make room, of all namespaces, since the beginning."""
        return self._tree.num_evicted_tokens

    @property
    def num_nodes(self) -> int:
        """Nodes of the tree, roots not counted: 0 when nothing is cached."""
        return self._tree.num_nodes

    def num_cached(self, tokens: Tokens, namespace: bytes = b"") -> int:
        """How many leading tokens are in the pool; `match` says more, for the price of hashing."""
        return self._tree.find(namespace, _encode(tokens))[1]

    def whole_pages(self, tokens: Tokens, namespace: bytes = b"") -> list[int]:
        """The pages that hold the cached beginning of `tokens`, as far as it fills them."""
        node, length = self._tree.find(namespace, _encode(tokens))
        return self._tree.page_table(node, 0, length // self.page_size)

    def match(self, tokens: Tokens, namespace: bytes = b"") -> Match:
        """How many leading tokens are cached, and where; changes nothing."""
        encoded = _encode(tokens)
        node, length = self._tree.find(namespace, encoded)
        spans = self._marks.spans(namespace, encoded, length)
        if length:
            spans.insert(0, Span(Tier.DEVICE, 0, length))
        more = length < node.end or bool(node.children)
        return Match(length, tuple(spans), more and length < len(tokens))

    def allocate(
        self,
        tokens: Tokens,
        namespace: bytes = b"",
        conversation: str | None = None,
        *,
        leave: int = 1,
        spare: int = 0,
    ) -> Allocation | None:
        """Lock the cached prefix of `tokens` and take pages for all the rest.

        The last `leave` tokens are to be computed in any case. `spare`: so many pages must be
        free, or free on demand, afterwards. `conversation`: whose request it
        is, for the eviction policy; when it begins and ends whoever runs it tells `observe`, for
        a request that is preempted is admitted twice. Returns None when there is no room now;
        then nothing has changed. A request that fits the pool is never refused while no other
        is live (and no page is to be spared).
        """
        assert len(tokens) > 0, "a request has at least one token"
        encoded = _encode(tokens)[: (len(tokens) - leave) * TOKEN_BYTES]
        found = self._tree.find(namespace, encoded)
        num_pages = -(-len(tokens) // self.page_size)
        usable = self._tree.longest_fit(*found, num_pages, spare)
        if usable is None:
            return None
        node, cached = usable
        num_matched = cached // self.page_size
        needed = num_pages - num_matched
        node = self._tree.acquire(node, cached)
        self._tree.evict(needed)
        pages = self._tree.page_table(node, 0, num_matched) + self._pool.take(needed)
        allocation = Allocation(namespace, pages, cached, cached, [], num_matched, node)
        allocation.conversation = conversation
        if (recent := self._recent.find(namespace, encoded, found[1])) is not None:
            allocation.evicted = EvictedPrefix(recent[0], self._clock() - recent[1])
        if num_slots := cached % self.page_size:
            copy = PageCopy(node.pages[-1], pages[num_matched], num_slots)
            allocation.copies.append(copy)
        self._live.add(allocation)
        return allocation

    def extend(self, allocation: Allocation, num_tokens: int) -> bool:
        """Make the page table cover `num_tokens` positions in total.

        Returns False when there is no room now; then nothing has changed.
        """
        assert allocation in self._live, "the allocation was released"
        needed = -(-num_tokens // self.page_size) - len(allocation.pages)
        if needed <= 0:
            return True
        if needed > self._pool.num_free + self._tree.num_evictable:
            return False
        self._tree.evict(needed)
        allocation.pages += self._pool.take(needed)
        return True

    def trim(self, allocation: Allocation, num_tokens: int) -> None:
        """Give back the private pages that lie beyond `num_tokens` positions, computed or not."""
        assert allocation in self._live, "the allocation was released"
        kept = max(-(-num_tokens // self.page_size), allocation.num_shared)
        self._pool.drop(allocation.pages[kept:])
        del allocation.pages[kept:]

    def commit(self, allocation: Allocation, tokens: Tokens) -> int:
        """Share the K/V of `tokens`, all of them computed; returns how many were new.

        `tokens` begin with those committed before. Pages that the tree has already replace
        the allocation's own in its page table; only then those are freed.
        """
        held, known = self._held(allocation), allocation.num_committed
        assert known <= len(tokens) <= len(allocation.pages) * self.page_size
        if len(tokens) == known:
            return 0
        assert not allocation.copies, "tokens were computed before the copied ones were there"
        added = _encode(tokens[known:])
        node, found = self._tree.advance(held, added)
        found += known
        num_whole = found // self.page_size
        num_shared = -(-len(tokens) // self.page_size) if found < len(tokens) else num_whole
        num_shared = max(num_shared, allocation.num_shared)
        private = allocation.pages[allocation.num_shared : num_shared]
        begin = known // self.page_size
        allocation.pages[begin:num_whole] = self._tree.page_table(node, begin, num_whole)
        if found < len(tokens):
            rest = added[(found - known) * TOKEN_BYTES :]
            node = self._tree.insert(node, rest, allocation.pages[num_whole:num_shared])
            if self._events is not None:
                prefix = _encode(tokens)
                number = self._events.sequence + 1
                self._events.append(Stored(number, allocation.namespace, prefix, found))
        # The tree holds what it took; of the others this was the last reference.
        self._pool.drop(private)
        allocation.node = node
        allocation.num_committed = len(tokens)
        allocation.num_shared = num_shared
        return len(tokens) - found

    def release(self, allocation: Allocation) -> None:
        """Give everything back: what is committed stays cached, the rest becomes free."""
        held = self._held(allocation)
        self._live.remove(allocation)
        self._tree.release(held, self._clock(), allocation.conversation)
        self._pool.drop(allocation.pages[allocation.num_shared :])
        allocation.node = None
        allocation.pages.clear()
        allocation.copies.clear()

    def observe(self, conversation: str, signal: Signal) -> None:
        """Tell the eviction policy what is heard of a conversation; a hint, never a promise."""
        self._tree.policy.observe(conversation, signal)

    def supersede(
        self, tokens: Tokens, start: int, conversation: str, namespace: bytes = b""
    ) -> None:
        """A conversation has left the branch `tokens` at position `start`, by an edit, say.

        What is cached of the branch beyond goes first, unless another conversation used it.
        """
        node, length = self._tree.find(namespace, _encode(tokens))
        if length < min(node.end, len(tokens)):
            assert node.parent is not None, "a root has no tokens to differ in"
            node = node.parent  # what this node has beyond is another branch
        if start < length:
            self._tree.supersede(node, start, conversation)

    def purge(
        self, tokens: Tokens, conversation: str, namespace: bytes = b"", *, start: int = 0
    ) -> int:
        """Forget a deleted conversation's path `tokens`; returns how many pages became free.

        `start`: the caller knows that other conversations hold the tokens before it; they stay.
        So does what a live allocation holds, and what another conversation hangs on.
        """
        if len(tokens) == 0:
            return 0  # else whatever was evicted of the namespace would count as what followed it
        encoded = _encode(tokens)
        freed = self._tree.purge(namespace, encoded, start, conversation)
        self._recent.forget(namespace, encoded, start)
        self._marks.forget(namespace, encoded, start)
        return freed

    def move(
        self,
        tokens: Tokens,
        start: int,
        source: Tier | None,
        target: Tier | None,
        namespace: bytes = b"",
    ) -> None:
        """The whole pages of the prefix `tokens` from `start` on have moved between tiers.

        None: they were copied from nowhere in particular, or are gone. The pool's own pages are
        the tree's affair: with the device as source or target only the other side is noted.
        """
        encoded = _encode(tokens)
        self._marks.move(namespace, encoded, start, source, target)
        if self._events is not None:
            number = self._events.sequence + 1
            self._events.append(Moved(number, namespace, encoded, start, source, target))

    def picture(self, path: Tokens, namespace: bytes, limit: int) -> tuple[list[NodeView], int]:
        """At most `limit` nodes of a namespace, parents first, and how many more there are."""
        root = self._tree.roots.get(namespace)
        return ([], 0) if root is None else picture(root, _encode(path), limit)

    def paths(self) -> list[tuple[bytes, bytes]]:
        """Namespace and tokens of every longest cached prefix: where a mirror begins."""
        return [self._tree.path(node) for node in self._tree.nodes() if not node.children]

    def _leaving(self, leaf: Node, end: int, purged: bool) -> None:
        """The tokens of an unheld leaf from `end` on are about to go; its pages are still there."""
        now = self._clock()
        known = not purged and self._recent.extend(leaf, end, now)
        if known and self._events is None and self._on_leave is None:
            return
        namespace, tokens = self._tree.path(leaf)
        if purged:
            self._recent.forget(namespace, tokens, end)
        elif not known:
            self._recent.add(namespace, tokens, leaf, end, now)
        if self._on_leave is not None and not purged:
            pages = leaf.pages[end // self.page_size - leaf.start // self.page_size :].tolist()
            self._on_leave(LeavingPages(namespace, tokens, end, pages))
        if self._events is not None:
            number = self._events.sequence + 1
            self._events.append(Evicted(number, namespace, tokens, end))

    def flush(self, namespace: bytes | None = None) -> int:
        """Forget all that no live allocation holds; returns how many pages became free.

        namespace: only what is in that one, and nothing is remembered of it as evicted.
        """
        if namespace is not None:
            return self._tree.drop(namespace)
        before = self._pool.num_free
        self._tree.evict(self.num_pages + 1)
        return self._pool.num_free - before

    def check(self) -> None:
        """Raise AssertionError unless every invariant of cache, tree and pool holds."""
        references = check_tree(self._tree, map(self._held, self._live))
        shared = set(references)
        for live in self._live:
            node, num_whole = self._held(live), live.num_committed // self.page_size
            private = live.pages[live.num_shared :]
            assert live.num_cached <= live.num_committed == node.end
            assert num_whole <= live.num_shared <= num_whole + 1
            assert live.pages[:num_whole] == self._tree.page_table(node, 0, num_whole)
            assert shared.issuperset(live.pages[: live.num_shared]), "a shared page is lost"
            assert shared.isdisjoint(private), "a private page is in the tree"
            for copy in live.copies:
                assert copy.source in self._tree.page_table(node, num_whole, num_whole + 1)
                assert copy.destination == private[0]
            references.update(private)
        assert self.num_cached_pages == len(shared), "a private page is held twice"
        self._pool.check(references)

    def _held(self, allocation: Allocation) -> Node:
        assert allocation in self._live, "the allocation was released"
        assert allocation.node is not None, "a live allocation holds a node"
        return allocation.node


def _encode(tokens: Tokens) -> bytes:
    """int32 tokens as bytes. struct: 11 us for a list of 2,048, numpy takes 24.

    Raises ValueError for a token that is no int32.
    """
    if isinstance(tokens, np.ndarray):
        assert tokens.dtype == np.int32, f"tokens are int32, not {tokens.dtype}"
        return tokens.tobytes()
    try:
        return struct.pack(f"{len(tokens)}i", *tokens)
    except struct.error as error:
        raise ValueError(f"tokens are int32: {error}") from error
