"""`UncachedPages`: a pool without a tree, for an engine whose cache is switched off."""

from __future__ import annotations

from collections import Counter

from radixchat.radix.allocation import Allocation, Match, Tokens
from radixchat.radix.picture import NodeView
from radixchat.radix.pool import PagePool
from radixchat.radix.use import Signal


class UncachedPages:
    """A pool without a tree: nothing is ever found, every token is computed."""

    num_evictable_pages = 0
    num_cached_pages = 0
    num_cached_tokens = 0
    num_evicted_tokens = 0
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

    def allocate(
        self,
        tokens: Tokens,
        namespace: bytes = b"",
        conversation: str | None = None,
        *,
        leave: int = 1,
        spare: int = 0,
    ) -> Allocation | None:
        """Take pages for all tokens, sparing some; None when there is no room now."""
        assert len(tokens) > 0, "a request has at least one token"
        if -(-len(tokens) // self.page_size) + spare > self._pool.num_free:
            return None
        allocation = Allocation(namespace, [], conversation=conversation)
        self._live.add(allocation)
        self.extend(allocation, len(tokens))
        return allocation

    def num_cached(self, tokens: Tokens, namespace: bytes = b"") -> int:
        """None is: 0."""
        return 0

    def extend(self, allocation: Allocation, num_tokens: int) -> bool:
        """Make the page table cover `num_tokens` positions; False when there is no room now."""
        assert allocation in self._live, "the allocation was released"
        needed = max(0, -(-num_tokens // self.page_size) - len(allocation.pages))
        if needed > self._pool.num_free:
            return False
        allocation.pages += self._pool.take(needed)
        return True

    def trim(self, allocation: Allocation, num_tokens: int) -> None:
        """Give back the pages that lie beyond `num_tokens` positions."""
        assert allocation in self._live, "the allocation was released"
        kept = -(-num_tokens // self.page_size)
        self._pool.drop(allocation.pages[kept:])
        del allocation.pages[kept:]

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

    def observe(self, conversation: str, signal: Signal) -> None:
        """There is nothing to order."""

    def supersede(
        self, tokens: Tokens, start: int, conversation: str, namespace: bytes = b""
    ) -> None:
        """There is no branch."""

    def purge(
        self, tokens: Tokens, conversation: str, namespace: bytes = b"", *, start: int = 0
    ) -> int:
        """There is nothing to forget: 0."""
        return 0

    def picture(self, path: Tokens, namespace: bytes, limit: int) -> tuple[list[NodeView], int]:
        """There is no node."""
        return [], 0

    def flush(self, namespace: bytes | None = None) -> int:
        """There is nothing to forget: 0."""
        return 0

    def check(self) -> None:
        """Raise AssertionError unless each page is free or held by one live allocation."""
        references = Counter(page for live in self._live for page in live.pages)
        assert all(count == 1 for count in references.values()), "a page is held twice"
        self._pool.check(references)
