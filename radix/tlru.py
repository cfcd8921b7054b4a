"""`TlruPolicy`: tail-optimised LRU (T-LRU, NeurIPS'25), for comparison.

Owns its two orders. The aim is a bounded wait, not a high hit rate: a turn that must compute up
to ξ tokens is fast enough, so of a conversation of H tokens whose next turn brings Q more only
the first max(0, H + Q - ξ) need to be cached, and whatever lies beyond goes first. On chat, where
most conversations are shorter than ξ, that gives up most of what could have been reused.
"""

from __future__ import annotations

from collections.abc import Iterator

from radixchat.radix.eviction import LeafHeap
from radixchat.radix.node import Node
from radixchat.radix.use import Signal


class TlruPolicy:
    """Tips beyond what a fast turn needs first, then all; the least recent first among each.

    xi: tokens that a turn may compute and still be fast; next_turn: tokens expected of the next
    one. A tip that is trimmed to the border is protected when it joins the order again.
    """

    def __init__(self, xi: int = 2048, next_turn: int = 200) -> None:
        if xi < 0:
            raise ValueError(f"xi is {xi} tokens; it must not be negative")
        if next_turn < 0:
            raise ValueError(f"next_turn is {next_turn} tokens; it must not be negative")
        self._allowance = xi - next_turn
        self._needed = LeafHeap()
        self._beyond = LeafHeap()

    def add(self, leaf: Node) -> None:
        """`leaf` has become evictable."""
        self._order(leaf).add(leaf, leaf.use.stamp)

    def discard(self, leaf: Node) -> None:
        """`leaf` is no longer evictable; its use and its end are still those of `add`."""
        self._order(leaf).discard(leaf)

    def victim(self) -> Node | None:
        """The least recent tip that a fast turn can do without, else the least recent one."""
        return self._beyond.first() or self._needed.first()

    def leaves(self) -> Iterator[Node]:
        """Every leaf in the order, in any sequence."""
        yield from self._beyond.leaves()
        yield from self._needed.leaves()

    def observe(self, conversation: str, signal: Signal) -> None:
        """Nothing that is heard of a conversation matters."""

    def _order(self, leaf: Node) -> LeafHeap:
        protected = max(0, leaf.use.length - self._allowance)
        return self._beyond if leaf.end > protected else self._needed
