"""`PrefixCache` = tree + pool; `Allocation`: the pages one request holds.

Integers in, integers out. Nothing here touches K/V: the engine writes each token's K/V into
the slot that the page table names, and performs the copies that an allocation asks for.

Who owns which page. Every page is in exactly one state:

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
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from radixchat.radix.eviction import EvictionPolicy, LruPolicy
from radixchat.radix.invariants import check_tree
from radixchat.radix.node import TOKEN_BYTES, Node
from radixchat.radix.pool import PagePool
from radixchat.radix.tree import RadixTree

Tokens = Sequence[int] | NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Match:
    """A look at the cache: `length` leading tokens have K/V, to the exact token."""

    length: int


@dataclass(frozen=True, slots=True)
class PageCopy:
    """Slots [0, num_slots) of page `source` must be in page `destination` before a forward."""

    source: int
    destination: int
    num_slots: int


@dataclass(slots=True, eq=False)
class Allocation:
    """The pages one request holds.

    pages: the page table, covering at least the tokens asked for. num_cached: leading tokens
    whose K/V was found when it was acquired, less than the tokens asked for. num_committed:
    leading tokens that are in the tree now. copies: at most one; whoever runs the step
    performs it and clears the list. num_shared and node are the cache's own: pages[num_shared:]
    are private, and `node` is where the committed tokens end.
    """

    namespace: bytes
    pages: list[int]
    num_cached: int = 0
    num_committed: int = 0
    copies: list[PageCopy] = field(default_factory=list)
    num_shared: int = 0
    node: Node | None = None


class PageCache(Protocol):
    """What an engine asks of a cache; `PrefixCache` and `UncachedPages` both are one."""

    page_size: int
    num_pages: int

    @property
    def num_free_pages(self) -> int:
        """Pages that hold nothing."""

    @property
    def num_evictable_pages(self) -> int:
        """Cached pages that no live allocation needs: free on demand."""

    @property
    def num_cached_pages(self) -> int:
        """Pages in the tree, held or not."""

    @property
    def num_cached_tokens(self) -> int:
        """Tokens in the tree."""

    @property
    def num_nodes(self) -> int:
        """Nodes of the tree, 0 when nothing is cached."""

    def match(self, tokens: Tokens, namespace: bytes = b"") -> Match:
        """How many leading tokens are cached."""

    def allocate(self, tokens: Tokens, namespace: bytes = b"") -> Allocation | None:
        """Pages for all tokens, the cached prefix shared; None when there is no room now."""

    def extend(self, allocation: Allocation, num_tokens: int) -> bool:
        """Cover `num_tokens` positions; False when there is no room now."""

    def commit(self, allocation: Allocation, tokens: Tokens) -> int:
        """Share the computed `tokens`; returns how many were new."""

    def release(self, allocation: Allocation) -> None:
        """Give everything back."""

    def check(self) -> None:
        """Raise AssertionError unless every invariant holds."""

    def flush(self) -> int:
        """Forget all that is not held; returns how many pages became free."""


class PrefixCache:
    """Shares the K/V of equal prefixes among requests, exact to the token."""

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        policy: Callable[[], EvictionPolicy] = LruPolicy,
    ) -> None:
        if page_size < 1:
            raise ValueError(f"page_size is {page_size}; it must be at least 1")
        self.num_pages = num_pages
        self.page_size = page_size
        self._pool = PagePool(num_pages)
        self._tree = RadixTree(self._pool, page_size, policy())
        self._live: set[Allocation] = set()

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
    def num_nodes(self) -> int:
        """Nodes of the tree, roots not counted: 0 when nothing is cached."""
        return self._tree.num_nodes

    def match(self, tokens: Tokens, namespace: bytes = b"") -> Match:
        """How many leading tokens are cached; changes nothing."""
        return Match(self._tree.find(namespace, _encode(tokens))[1])

    def allocate(self, tokens: Tokens, namespace: bytes = b"") -> Allocation | None:
        """Lock the cached prefix of `tokens` and take pages for all the rest.

        At least the last token is always left to compute. Returns None when there is no room
        now; then nothing has changed. A request that fits the pool is never refused while no
        other is live.
        """
        assert len(tokens) > 0, "a request has at least one token"
        found = self._tree.find(namespace, _encode(tokens[:-1]))
        num_pages = -(-len(tokens) // self.page_size)
        usable = self._tree.longest_fit(*found, num_pages)
        if usable is None:
            return None
        node, cached = usable
        num_matched = cached // self.page_size
        needed = num_pages - num_matched
        node = self._tree.acquire(node, cached)
        self._tree.evict(needed)
        pages = self._tree.page_table(node, 0, num_matched) + self._pool.take(needed)
        allocation = Allocation(namespace, pages, cached, cached, [], num_matched, node)
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
        self._tree.release(held)
        self._pool.drop(allocation.pages[allocation.num_shared :])
        allocation.node = None
        allocation.pages.clear()
        allocation.copies.clear()

    def flush(self) -> int:
        """Forget all that no live allocation holds; returns how many pages became free."""
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


class UncachedPages:
    """A pool without a tree: nothing is ever found, every token is computed."""

    num_evictable_pages = 0
    num_cached_pages = 0
    num_cached_tokens = 0
    num_nodes = 0

    def __init__(self, num_pages: int, page_size: int) -> None:
        if page_size < 1:
            raise ValueError(f"page_size is {page_size}; it must be at least 1")
        self.num_pages = num_pages
        self.page_size = page_size
        self._pool = PagePool(num_pages)
        self._live: set[Allocation] = set()

    @property
    def num_free_pages(self) -> int:
        """Pages that no live allocation holds."""
        return self._pool.num_free

    def match(self, tokens: Tokens, namespace: bytes = b"") -> Match:
        """Nothing is cached."""
        return Match(0)

    def allocate(self, tokens: Tokens, namespace: bytes = b"") -> Allocation | None:
        """Take pages for all tokens; None when there is no room now."""
        assert len(tokens) > 0, "a request has at least one token"
        allocation = Allocation(namespace, [])
        self._live.add(allocation)
        if self.extend(allocation, len(tokens)):
            return allocation
        self._live.remove(allocation)
        return None

    def extend(self, allocation: Allocation, num_tokens: int) -> bool:
        """Make the page table cover `num_tokens` positions; False when there is no room now."""
        assert allocation in self._live, "the allocation was released"
        needed = max(0, -(-num_tokens // self.page_size) - len(allocation.pages))
        if needed > self._pool.num_free:
            return False
        allocation.pages += self._pool.take(needed)
        return True

    def commit(self, allocation: Allocation, tokens: Tokens) -> int:
        """Nothing becomes shared: 0."""
        assert allocation in self._live, "the allocation was released"
        assert len(tokens) <= len(allocation.pages) * self.page_size
        return 0

    def release(self, allocation: Allocation) -> None:
        """Give every page back."""
        assert allocation in self._live, "released twice"
        self._live.remove(allocation)
        self._pool.drop(allocation.pages)
        allocation.pages.clear()

    def flush(self) -> int:
        """There is nothing to forget: 0."""
        return 0

    def check(self) -> None:
        """Raise AssertionError unless each page is free or held by one live allocation."""
        references = Counter(page for live in self._live for page in live.pages)
        assert all(count == 1 for count in references.values()), "a page is held twice"
        self._pool.check(references)


def _encode(tokens: Tokens) -> bytes:
    """int32 tokens as bytes. struct: 11 us for a list of 2,048, numpy takes 24."""
    if isinstance(tokens, np.ndarray):
        assert tokens.dtype == np.int32, f"tokens are int32, not {tokens.dtype}"
        return tokens.tobytes()
    return struct.pack(f"{len(tokens)}i", *tokens)
