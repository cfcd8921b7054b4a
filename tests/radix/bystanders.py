"""`Mirror` and `HostTier`: what others keep from what a cache tells them, for a `Simulation`.

Both know prefixes by their numbers. The mirror is the set of cached prefixes, kept from events
alone. The host tier copies the K/V of whole pages while they leave.
"""

from __future__ import annotations

from typing import Protocol

from radixchat.radix.allocation import LeavingPages
from radixchat.radix.events import Event
from radixchat.tests.radix.kv_store import KvStore
from radixchat.tests.radix.prefix_numbers import PrefixNumbers


class Log(Protocol):
    """The part of an EventLog that a mirror needs."""

    def since(self, sequence: int) -> list[Event] | None:
        """Events after a number."""


class Mirror:
    """The prefixes that a cache holds, according to its events."""

    def __init__(self, numbers: PrefixNumbers) -> None:
        self.prefixes: set[int] = set()
        self._numbers = numbers
        self._sequence = 0

    def follow(self, log: Log) -> None:
        """Apply what came since the last look."""
        events = log.since(self._sequence)
        assert events is not None, "the log lost events that nobody has read"
        for event in events:
            self._sequence += 1
            assert event.sequence == self._sequence, "a gap in the sequence"
            path = self._numbers.of_encoded(event.tokens, event.namespace)
            head, rest = set(path[: event.start]), set(path[event.start :])
            match type(event).__name__:  # a mutant of the index has event classes of its own
                case "Stored":
                    assert head <= self.prefixes, "stored below what is not there"
                    assert rest.isdisjoint(self.prefixes), "stored twice"
                    self.prefixes |= rest
                case "Evicted":
                    assert self.prefixes.issuperset(path), "evicted what was not there"
                    self.prefixes -= rest


class HostTier:
    """Copies of whole pages, by the prefix that ends each: the K/V as it was when they left."""

    def __init__(self, numbers: PrefixNumbers, store: KvStore, page_size: int) -> None:
        self.arrived: list[tuple[bytes, bytes, int]] = []  # not yet marked
        self._copies: set[int] = set()
        self._numbers = numbers
        self._store = store
        self._page_size = page_size

    def take(self, leaving: LeavingPages) -> None:
        """Copy what leaves, where it can be read: each page holds all tokens of its index."""
        path = self._numbers.of_encoded(leaving.tokens, leaving.namespace)
        first = leaving.start // self._page_size
        assert len(leaving.pages) == -(-len(path) // self._page_size) - first
        for index, page in enumerate(leaving.pages, first):
            held = path[index * self._page_size : (index + 1) * self._page_size]
            assert self._store.holds(page, held), "a page leaves without its K/V"
        self.arrived.append((leaving.namespace, leaving.tokens, leaving.start))

    def store_arrived(self) -> list[tuple[bytes, bytes, int]]:
        """Keep what was taken; returns namespace, tokens and start of each, to be marked."""
        arrived, self.arrived = self.arrived, []
        for namespace, tokens, start in arrived:
            self._copies.update(self._ends(self._numbers.of_encoded(tokens, namespace), start))
        return arrived

    def lose(self, path: list[int], start: int) -> None:
        """Drop the copies of the whole pages of a path from position `start` on."""
        self._copies.difference_update(self._ends(path, start))

    def forget(self, path: list[int], start: int) -> None:
        """Drop the copies of all pages that reach beyond position `start`."""
        self._copies.difference_update(self._ends(path, start - start % self._page_size))

    def reach(self, path: list[int], start: int) -> int:
        """How far a path can be had from here after position `start`, page after page."""
        size = self._page_size
        end = start - start % size
        while end + size <= len(path) and path[end + size - 1] in self._copies:
            end += size
        return max(start, end)

    def _ends(self, path: list[int], start: int) -> list[int]:
        """The prefixes that end the whole pages of a path from position `start` on."""
        size = self._page_size
        first = -(-start // size)
        return path[(first + 1) * size - 1 :: size]
