"""Which unheld leaf is trimmed next: the policy, and the one persistent order it keeps.

A leaf joins the order when nobody holds it and nothing hangs below it, and leaves the order
when either changes; the order is never rebuilt from the tree, which this module does not
know. A policy sees of a leaf what its last `use` was, where it ends and how many pages it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Protocol

from radixchat.radix.node import Node
from radixchat.radix.use import Signal

# One sequence for all heaps: a leaf that moves to another leaves no entry behind that counts.
_TICKETS = itertools.count(1)


class EvictionPolicy(Protocol):
    """Orders the evictable leaves.

    The tree discards a leaf before its use, its end or its pages change, and adds it again
    after. A policy protects by order only: while there is a leaf, there is a victim.
    """

    def add(self, leaf: Node) -> None:
        """`leaf` has become evictable."""

    def discard(self, leaf: Node) -> None:
        """`leaf` is no longer evictable."""

    def victim(self) -> Node | None:
        """The leaf to trim next, which stays in the order; None when there is none."""

    def leaves(self) -> Iterator[Node]:
        """Every leaf in the order, in any sequence."""

    def observe(self, conversation: str, signal: Signal) -> None:
        """Take in what is heard of a conversation; the order may change."""


class LeafHeap:
    """Leaves by priority, smallest first: a heap whose stale entries are skipped later.

    `leaf.ticket` names the one entry that counts; discarding a leaf only tears its ticket up.
    Entries that no longer count are at most half of the heap, so adding costs amortised
    O(log n) and no operation ever looks at the tree.
    """

    _SLACK = 64  # stale entries that are never worth sweeping

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Node]] = []
        self._num_leaves = 0

    def add(self, leaf: Node, priority: int) -> None:
        """Enter a leaf that is not in the heap; equal priorities leave in order of entry."""
        assert leaf.ticket == 0, "the leaf is in the order already"
        if len(self._heap) > 2 * self._num_leaves + self._SLACK:
            self._heap = [entry for entry in self._heap if entry[2].ticket == entry[1]]
            heapify(self._heap)
        leaf.ticket = next(_TICKETS)
        heappush(self._heap, (priority, leaf.ticket, leaf))
        self._num_leaves += 1

    def discard(self, leaf: Node) -> None:
        """Remove a leaf that is in the heap."""
        assert leaf.ticket != 0, "the leaf is not in the order"
        leaf.ticket = 0
        self._num_leaves -= 1

    def first(self) -> Node | None:
        """The leaf with the smallest priority."""
        while self._heap:
            _, ticket, leaf = self._heap[0]
            if leaf.ticket == ticket:
                return leaf
            heappop(self._heap)
        return None

    def leaves(self) -> Iterator[Node]:
        """Every leaf in the heap, in any sequence."""
        return (leaf for _, ticket, leaf in self._heap if leaf.ticket == ticket)


class LruPolicy:
    """Least recently used first."""

    def __init__(self) -> None:
        self._heap = LeafHeap()

    def add(self, leaf: Node) -> None:
        """`leaf` has become evictable."""
        self._heap.add(leaf, leaf.use.stamp)

    def discard(self, leaf: Node) -> None:
        """`leaf` is no longer evictable."""
        self._heap.discard(leaf)

    def victim(self) -> Node | None:
        """The leaf whose tip was used longest ago."""
        return self._heap.first()

    def leaves(self) -> Iterator[Node]:
        """Every leaf in the order, in any sequence."""
        return self._heap.leaves()

    def observe(self, conversation: str, signal: Signal) -> None:
        """Nothing that is heard of a conversation matters."""
