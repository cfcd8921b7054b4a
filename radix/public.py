"""`PublicPrefixCache`: prompts that an operator declared public are shared among all namespaces.

A private root hangs off the end of a public prefix: a request whose tokens begin with one holds
two allocations, of the prefix in the public root and of the rest in a root of its namespace for
that prefix. To the request they are one:

    tokens         system prompt, whole pages     the rest of it, and the tenant's own
    page table     7   9   4                      12   3
    namespace      PUBLIC                         of the tenant, below this prefix

So a tenant finds of another's prompt the public pages and nothing else. Only whole pages of a
prefix are public, so that no page belongs to both parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from radixchat.radix.allocation import Allocation, Match, Tokens
from radixchat.radix.cache import PrefixCache
from radixchat.radix.picture import NodeView
from radixchat.radix.tiers import Span
from radixchat.radix.use import Signal

PUBLIC = b"public"


@dataclass(frozen=True, slots=True, eq=False)
class _Prefix:
    """The whole pages of a declared prefix; `digest` names the roots that hang off its end."""

    tokens: NDArray[np.int32]
    listed: list[int]
    digest: bytes

    @classmethod
    def of(cls, tokens: Sequence[int]) -> _Prefix:
        array = np.array(tokens, np.int32)
        return cls(array, array.tolist(), blake2b(array.tobytes(), digest_size=16).digest())

    @property
    def size(self) -> int:
        return len(self.listed)

    def begins(self, tokens: Tokens) -> bool:
        """Whether the tokens go on from it, at least one. A list: 6 us for 800, as an array 17."""
        if self.size >= len(tokens):
            return False
        head = tokens[: self.size]
        if isinstance(head, list):
            return head == self.listed
        return np.array_equal(np.asarray(head), self.tokens)

    def below(self, namespace: bytes) -> bytes:
        """The namespace's private root."""
        return namespace + self.digest


@dataclass(frozen=True, slots=True)
class _Parts:
    """The two allocations of one request, the first `border` tokens and the others."""

    border: int
    public: Allocation
    private: Allocation

    def take_over_copies(self, whole: Allocation) -> None:
        """The parts' copies are done when the request's are."""
        if not whole.copies:
            self.public.copies.clear()
            self.private.copies.clear()


class PublicPrefixCache:
    """A PrefixCache with public prefixes; itself a PageCache.

    prefixes: token ids, the same for every model state that the cache may hold. Public are the
    whole pages before a prefix's last token; one without any shares nothing.
    """

    def __init__(self, cache: PrefixCache, prefixes: Sequence[Sequence[int]]) -> None:
        if cache.has_tenants:
            raise ValueError("tenants' limits do not reach below a public prefix; set one of them")
        self.page_size = cache.page_size
        self.num_pages = cache.num_pages
        self._cache = cache
        # The last token of a prefix is never public: so a prompt that is no more than the prefix
        # has a private part as those that go on from it have, and they find what it computed.
        sizes = ((p, (len(p) - 1) // self.page_size * self.page_size) for p in prefixes)
        whole = {tuple(p[: max(0, size)]) for p, size in sizes}
        longest_first = sorted(whole - {()}, key=len, reverse=True)
        self._prefixes = [_Prefix.of(tokens) for tokens in longest_first]
        self._parts: dict[Allocation, _Parts] = {}
        self._live: set[Allocation] = set()

    @property
    def num_free_pages(self) -> int:
        """Pages that hold nothing."""
        return self._cache.num_free_pages

    @property
    def num_evictable_pages(self) -> int:
        """Cached pages that no live allocation needs."""
        return self._cache.num_evictable_pages

    @property
    def num_cached_pages(self) -> int:
        """Pages in the tree, held or not."""
        return self._cache.num_cached_pages

    @property
    def num_cached_tokens(self) -> int:
        """Tokens in the tree."""
        return self._cache.num_cached_tokens

    @property
    def num_evicted_tokens(self) -> int:
        """Tokens dropped to make room."""
        return self._cache.num_evicted_tokens

    @property
    def num_nodes(self) -> int:
        """Nodes of the tree."""
        return self._cache.num_nodes

    def num_cached(self, tokens: Tokens, namespace: bytes = b"") -> int:
        """How many leading tokens are in the pool."""
        prefix = self._prefix_of(tokens)
        if prefix is None:
            return self._cache.num_cached(tokens, namespace)
        public = self._cache.num_cached(prefix.tokens, PUBLIC)
        if public < prefix.size:
            return public
        return public + self._cache.num_cached(tokens[public:], prefix.below(namespace))

    def match(self, tokens: Tokens, namespace: bytes = b"") -> Match:
        """How many leading tokens are cached, and where; changes nothing."""
        prefix = self._prefix_of(tokens)
        if prefix is None:
            return self._cache.match(tokens, namespace)
        border = prefix.size
        public = self._cache.match(prefix.tokens, PUBLIC)
        if public.length < border:
            return public
        private = self._cache.match(tokens[border:], prefix.below(namespace))
        spans = [Span(s.tier, s.start + border, s.end + border) for s in private.spans]
        return Match(border + private.length, (*public.spans, *spans), private.diverges)

    def allocate(
        self,
        tokens: Tokens,
        namespace: bytes = b"",
        conversation: str | None = None,
        *,
        leave: int = 1,
        spare: int = 0,
    ) -> Allocation | None:
        """As PrefixCache.allocate; the public part from the public root.

        A request that has to compute tokens of a public prefix does not take part in it.
        """
        prefix = self._prefix_of(tokens)
        if prefix is None or leave > len(tokens) - prefix.size:
            whole_path = self._cache.allocate(
                tokens, namespace, conversation, leave=leave, spare=spare
            )
            return self._admit(whole_path)
        border = prefix.size
        public = self._cache.allocate(prefix.tokens, PUBLIC, leave=0)
        if public is None:
            return None
        rest, below = tokens[border:], prefix.below(namespace)
        # K/V is computed from the first token that is missing on: nothing beyond it is of use.
        usable = public.num_cached == border
        private = self._cache.allocate(
            rest, below, conversation, leave=leave if usable else len(rest), spare=spare
        )
        if private is None:
            self._cache.release(public)
            if self._live:
                return None
            return self._admit(self._cache.allocate(tokens, namespace, conversation, leave=leave))
        whole = Allocation(namespace, [], public.num_cached + private.num_cached)
        if public.evicted is not None:
            whole.evicted = public.evicted
        elif private.evicted is not None and usable:
            whole.evicted = replace(private.evicted, length=border + private.evicted.length)
        self._parts[whole] = _Parts(border, public, private)
        self._join(whole)
        return self._admit(whole)

    def extend(self, allocation: Allocation, num_tokens: int) -> bool:
        """As PrefixCache.extend."""
        parts = self._parts.get(allocation)
        if parts is None:
            return self._cache.extend(allocation, num_tokens)
        if not self._cache.extend(parts.private, num_tokens - parts.border):
            return False
        parts.take_over_copies(allocation)
        self._join(allocation)
        return True

    def trim(self, allocation: Allocation, num_tokens: int) -> None:
        """As PrefixCache.trim; the pages of a public prefix stay."""
        parts = self._parts.get(allocation)
        if parts is None:
            self._cache.trim(allocation, num_tokens)
            return
        parts.take_over_copies(allocation)
        self._cache.trim(parts.private, max(num_tokens - parts.border, 1))
        self._join(allocation)

    def commit(self, allocation: Allocation, tokens: Tokens) -> int:
        """As PrefixCache.commit; what belongs to the public prefix becomes shared by all."""
        parts = self._parts.get(allocation)
        if parts is None:
            return self._cache.commit(allocation, tokens)
        parts.take_over_copies(allocation)
        new = self._cache.commit(parts.public, tokens[: parts.border])
        if len(tokens) > parts.border:
            new += self._cache.commit(parts.private, tokens[parts.border :])
        self._join(allocation)
        return new

    def release(self, allocation: Allocation) -> None:
        """As PrefixCache.release."""
        self._live.remove(allocation)
        parts = self._parts.pop(allocation, None)
        if parts is None:
            self._cache.release(allocation)
            return
        self._cache.release(parts.private)
        self._cache.release(parts.public)
        allocation.pages.clear()
        allocation.copies.clear()

    def observe(self, conversation: str, signal: Signal) -> None:
        """As PrefixCache.observe."""
        self._cache.observe(conversation, signal)

    def supersede(
        self, tokens: Tokens, start: int, conversation: str, namespace: bytes = b""
    ) -> None:
        """As PrefixCache.supersede; a public prefix is never left."""
        for border, below in self._roots(tokens, namespace):
            self._cache.supersede(tokens[border:], max(0, start - border), conversation, below)

    def purge(
        self, tokens: Tokens, conversation: str, namespace: bytes = b"", *, start: int = 0
    ) -> int:
        """As PrefixCache.purge; a public prefix stays.

        Looks below every root that the path may have: a prompt that was not longer than the
        prefix, or was alone and had no room beside it, lies in the namespace's own.
        """
        freed = 0
        for border, below in self._roots(tokens, namespace):
            first = max(0, start - border)
            freed += self._cache.purge(tokens[border:], conversation, below, start=first)
        return freed

    def picture(self, path: Tokens, namespace: bytes, limit: int) -> tuple[list[NodeView], int]:
        """As PrefixCache.picture, of the private part; positions count the public prefix."""
        views: list[NodeView] = []
        left_out = 0
        border, home = next(self._roots(path, namespace))
        roots = [(prefix.size, prefix.below(namespace)) for prefix in self._prefixes]
        for start, root in ((0, namespace), *roots):
            own = path[border:] if root == home else ()
            found, more = self._cache.picture(own, root, limit - len(views))
            left_out += more
            first = len(views)
            for view in found:
                parent = None if view.parent is None else view.parent + first
                shifted = replace(view, parent=parent, start=view.start + start)
                views.append(replace(shifted, end=view.end + start))
        return views, left_out

    def check(self) -> None:
        """Raise AssertionError unless every invariant holds."""
        self._cache.check()
        assert self._parts.keys() <= self._live
        for whole, parts in self._parts.items():
            assert whole.pages == parts.public.pages + parts.private.pages
            assert len(parts.public.pages) * self.page_size == parts.border

    def flush(self, namespace: bytes | None = None) -> int:
        """As PrefixCache.flush: public prefixes go too, but not with one namespace."""
        if namespace is None:
            return self._cache.flush()
        roots = (namespace, *(prefix.below(namespace) for prefix in self._prefixes))
        return sum(self._cache.flush(root) for root in roots)

    def _prefix_of(self, tokens: Tokens) -> _Prefix | None:
        """The longest public prefix that the tokens go on from; one is left to compute."""
        return next((prefix for prefix in self._prefixes if prefix.begins(tokens)), None)

    def _roots(self, tokens: Tokens, namespace: bytes) -> Iterator[tuple[int, bytes]]:
        """Where the path may lie: the length of the public part and the root of the rest."""
        for prefix in self._prefixes:
            if prefix.begins(tokens):
                yield prefix.size, prefix.below(namespace)
        yield 0, namespace

    def _admit(self, allocation: Allocation | None) -> Allocation | None:
        if allocation is not None:
            self._live.add(allocation)
        return allocation

    def _join(self, whole: Allocation) -> None:
        """Bring what the request sees of its parts up to date."""
        parts = self._parts[whole]
        whole.pages[:] = parts.public.pages + parts.private.pages
        whole.copies[:] = parts.public.copies + parts.private.copies
        whole.num_committed = parts.public.num_committed + parts.private.num_committed
