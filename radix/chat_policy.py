"""`ChatPolicy`: first goes what is least likely to be asked for now, then what is least recent.

Owns the orders of the leaves, one heap for each class, and compares only their heads: within a
class the return rate never grows with the idle time, so the least recent leaf of a class is
always its next. It does not know the tree. Habits, shields and what bounds the memory are in
`conversation_table.py`, the rates in `return_rate.py`.

Which class a leaf is in:

    superseded   a regenerate or an edit has left this branch: goes first
    shared       by more than one conversation; the rate is that of all conversations together
    unknown      no conversation is known for it; the rate is the same
    habit        closed, or (connected, away, disconnected, back) x (first turn, later turns)

The conversations that are shielded (typing, back again, waiting in the queue) have a heap for
each habit of their own, which goes last. Nothing is ever more than last.

Traffic without conversations is in two classes of one rate, where ties are broken by the last
use: that is LRU, decision by decision. So is all else until there is something to tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from radixchat.radix.conversation_table import (
    MAX_CONVERSATIONS,
    Conversation,
    ConversationTable,
    Habit,
)
from radixchat.radix.eviction import LeafHeap
from radixchat.radix.node import Node
from radixchat.radix.return_rate import NUM_BINS, ReturnRates, idle_bin
from radixchat.radix.use import Signal

REBUILD_SECONDS = 60.0

# Before anything is learned, one that was just closed goes before any other, idle for a day.
_SCALES = tuple(1e-6 if habit is Habit.CLOSED else 1.0 for habit in Habit)

# The orders: one for each habit, one for each shielded, and those of leaves without a habit.
_SHIELDED = len(Habit)
_SUPERSEDED, _SHARED, _UNKNOWN = range(2 * _SHIELDED, 2 * _SHIELDED + 3)
_NUM_ORDERS = _UNKNOWN + 1


class ChatPolicy:
    """Return-rate classes.

    clock: seconds, the clock of the uses; it may stand still. max_conversations: how many are
    remembered, those with the latest requests.
    """

    def __init__(
        self, clock: Callable[[], float], max_conversations: int = MAX_CONVERSATIONS
    ) -> None:
        self._clock = clock
        self._now = clock()
        self._rebuild_at = self._now + REBUILD_SECONDS
        self._rates = ReturnRates(_SCALES)
        self._table = ConversationTable(self._rates, max_conversations)
        self._heaps = [LeafHeap() for _ in range(_NUM_ORDERS)]
        self._scores = self._all_scores()

    def add(self, leaf: Node) -> None:
        """`leaf` has become evictable."""
        order = self._fixed_order(leaf)
        if order is None:
            conversation = self._conversation(leaf)
            if conversation is None:
                order = _UNKNOWN
            else:
                conversation.leaves[leaf] = None
                order = conversation.order
        self._heaps[order].add(leaf, leaf.use.stamp)

    def discard(self, leaf: Node) -> None:
        """`leaf` is no longer evictable; its use and its end are still those of `add`."""
        order = self._fixed_order(leaf)
        if order is None:
            conversation = self._conversation(leaf)
            if conversation is None or leaf not in conversation.leaves:
                order = _UNKNOWN  # added before the conversation was known
            else:
                del conversation.leaves[leaf]
                order = conversation.order
        self._heaps[order].discard(leaf)

    def victim(self) -> Node | None:
        """Of the least recent leaves of each order the one with the lowest score."""
        now = self._catch_up()
        victim, lowest = None, (0, 0.0, 0)
        for order, heap in enumerate(self._heaps):
            leaf = heap.first()
            if leaf is not None:
                use, shielded = leaf.use, _SHIELDED <= order < _SUPERSEDED
                row = self._scores[order]
                score = shielded, row[idle_bin(now - use.time)], use.stamp
                if victim is None or score < lowest:
                    victim, lowest = leaf, score
        return victim

    def leaves(self) -> Iterator[Node]:
        """Every leaf in the order, in any sequence."""
        return (leaf for heap in self._heaps for leaf in heap.leaves())

    def observe(self, conversation: str, signal: Signal) -> None:
        """Take in what is heard of a conversation: its leaves may change their order."""
        now = self._catch_up()
        heard = self._table.hear(conversation, signal, now)
        if heard is not None:
            self._move(heard)
        for forgotten in self._table.forgotten(now):
            for leaf in forgotten.leaves:
                self._heaps[forgotten.order].discard(leaf)
                self._heaps[_UNKNOWN].add(leaf, leaf.use.stamp)

    def _catch_up(self) -> float:
        """The time, which never goes back; shields end and rates are rebuilt when it has come."""
        now = self._now = max(self._now, self._clock())
        for conversation in self._table.ended_shields(now):
            self._move(conversation)
        if now >= self._rebuild_at:
            self._rates.rebuild(now)
            self._scores = self._all_scores()
            self._rebuild_at = now + REBUILD_SECONDS
        return now

    def _move(self, conversation: Conversation) -> None:
        """Bring the leaves of a conversation to the order of its habit and shield."""
        order = conversation.habit + _SHIELDED * conversation.shielded
        if order != conversation.order:
            for leaf in conversation.leaves:
                self._heaps[conversation.order].discard(leaf)
                self._heaps[order].add(leaf, leaf.use.stamp)
            conversation.order = order

    def _conversation(self, leaf: Node) -> Conversation | None:
        name = leaf.use.conversation
        return None if name is None else self._table.get(name)

    def _all_scores(self) -> list[list[float]]:
        """For each order its scores by idle bin."""
        habits, pooled = self._rates.scores, self._rates.pooled
        return [*habits, *habits, [-math.inf] * NUM_BINS, pooled, pooled]

    @staticmethod
    def _fixed_order(leaf: Node) -> int | None:
        """The order of a leaf that it has whatever is heard of its conversation."""
        if leaf.use.superseded:
            return _SUPERSEDED
        return _SHARED if leaf.use.shared else None
