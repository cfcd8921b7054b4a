"""What a cache hands out: `Match`, `Allocation`, `PageCopy`; and `PageCache`, what an engine asks.

Values, and the protocol that `PrefixCache` and `UncachedPages` fulfil. Knows no tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from radixchat.radix.node import Node
from radixchat.radix.picture import NodeView
from radixchat.radix.tiers import Span
from radixchat.radix.use import Signal

Tokens = Sequence[int] | NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Match:
    """A look at the cache: `length` leading tokens have K/V in the pool, to the exact token.

    spans: these tokens and what follows them without a gap, by the tier they can be had from.
    diverges: the cache holds other tokens after the first `length`, instead of none.
    """

    length: int
    spans: tuple[Span, ...] = ()
    diverges: bool = False


@dataclass(frozen=True, slots=True)
class EvictedPrefix:
    """The first `length` tokens were cached, and what is missing of them was evicted."""

    length: int
    seconds_ago: float


@dataclass(frozen=True, slots=True)
class PageCopy:
    """Slots [0, num_slots) of page `source` must be in page `destination` before a forward."""

    source: int
    destination: int
    num_slots: int


@dataclass(frozen=True, slots=True)
class LeavingPages:
    """The cached path `tokens` (int32, as bytes) loses its tokens from `start` on.

    pages: those that hold them, from the page of position `start` on; the first one may go on
    holding tokens before it.
    """

    namespace: bytes
    tokens: bytes
    start: int
    pages: list[int]


@dataclass(slots=True, eq=False)
class Allocation:
    """The pages one request holds.

    pages: the page table, covering at least the tokens asked for. num_cached: leading tokens
    whose K/V was found when it was acquired, less than the tokens asked for. num_committed:
    leading tokens that are in the tree now. copies: at most one; whoever runs the step
    performs it and clears the list. num_shared and node are the cache's own: pages[num_shared:]
    are private, and `node` is where the committed tokens end. conversation: whose request it
    is, if that was said. evicted: more of the tokens was found in the recent past.
    """

    namespace: bytes
    pages: list[int]
    num_cached: int = 0
    num_committed: int = 0
    copies: list[PageCopy] = field(default_factory=list)
    num_shared: int = 0
    node: Node | None = None
    conversation: str | None = None
    evicted: EvictedPrefix | None = None


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
    def num_evicted_tokens(self) -> int:
        """Tokens dropped to make room since the beginning."""

    @property
    def num_nodes(self) -> int:
        """Nodes of the tree, 0 when nothing is cached."""

    def match(self, tokens: Tokens, namespace: bytes = b"") -> Match:
        """How many leading tokens are cached."""

    def num_cached(self, tokens: Tokens, namespace: bytes = b"") -> int:
        """How many leading tokens are in the pool."""

    def allocate(
        self,
        tokens: Tokens,
        namespace: bytes = b"",
        conversation: str | None = None,
        *,
        leave: int = 1,
        spare: int = 0,
    ) -> Allocation | None:
        """Pages for all tokens, the cached prefix shared; None when there is no room now.

        The last `leave` tokens are computed in any case; `spare` pages stay available to others.
        """

    def extend(self, allocation: Allocation, num_tokens: int) -> bool:
        """Cover `num_tokens` positions; False when there is no room now."""

    def trim(self, allocation: Allocation, num_tokens: int) -> None:
        """Give back the private pages that lie beyond `num_tokens` positions."""

    def commit(self, allocation: Allocation, tokens: Tokens) -> int:
        """Share the computed `tokens`; returns how many were new."""

    def release(self, allocation: Allocation) -> None:
        """Give everything back."""

    def observe(self, conversation: str, signal: Signal) -> None:
        """Take in what is heard of a conversation."""

    def supersede(
        self, tokens: Tokens, start: int, conversation: str, namespace: bytes = b""
    ) -> None:
        """Take in that a conversation has left the branch `tokens` at position `start`."""

    def purge(
        self, tokens: Tokens, conversation: str, namespace: bytes = b"", *, start: int = 0
    ) -> int:
        """Forget a deleted conversation's path; returns how many pages became free."""

    def picture(self, path: Tokens, namespace: bytes, limit: int) -> tuple[list[NodeView], int]:
        """At most `limit` nodes of a namespace, parents first, and how many more there are.

        path: whose nodes are marked.
        """

    def check(self) -> None:
        """Raise AssertionError unless every invariant holds."""

    def flush(self, namespace: bytes | None = None) -> int:
        """Forget what is not held, of one namespace or of all; how many pages became free."""
