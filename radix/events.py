"""What happened to the index: numbered events for a mirror, and the ring of recent evictions.

An event names a path by its tokens (int32, as bytes), so it means the same to whoever reads it,
however nodes were split or merged since. Knows no tree: the cache tells it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from radixchat.radix.node import TOKEN_BYTES, Node, common_length
from radixchat.radix.tiers import Tier


@dataclass(frozen=True, slots=True)
class Stored:
    """The prefix `tokens` is cached now; new are those from `start` on."""

    sequence: int
    namespace: bytes
    tokens: bytes
    start: int


@dataclass(frozen=True, slots=True)
class Evicted:
    """Of the cached path `tokens` only the first `start` are still cached."""

    sequence: int
    namespace: bytes
    tokens: bytes
    start: int


@dataclass(frozen=True, slots=True)
class Moved:
    """The whole pages of `tokens` from `start` on have one copy less and one more."""

    sequence: int
    namespace: bytes
    tokens: bytes
    start: int
    source: Tier | None
    target: Tier | None


Event = Stored | Evicted | Moved


class EventLog:
    """The latest events, numbered from 1 without a gap; bounded in bytes of tokens.

    A mirror keeps the number of the last event it applied and asks for those since. When the
    log does not reach back that far it starts again from the cache's paths.
    """

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self.sequence = 0  # of the last event
        self._events: deque[Event] = deque()
        self._num_bytes = 0
        self._max_bytes = max_bytes

    def append(self, event: Event) -> None:
        """Add the event that carries the number after the last one."""
        assert event.sequence == self.sequence + 1, "a gap in the sequence"
        self.sequence = event.sequence
        self._events.append(event)
        self._num_bytes += len(event.tokens)
        while self._num_bytes > self._max_bytes:
            self._num_bytes -= len(self._events.popleft().tokens)

    def since(self, sequence: int) -> list[Event] | None:
        """The events after number `sequence`; None when some of them are gone."""
        count = self.sequence - sequence
        if not 0 <= count <= len(self._events):
            return None
        return [
            self._events[index] for index in range(len(self._events) - count, len(self._events))
        ]


@dataclass(slots=True)
class _Eviction:
    """A path whose tokens from `start` on were evicted.

    anchor: the node that ends there, of the latest entry only; it must keep no dead node alive.
    """

    namespace: bytes
    tokens: bytes
    start: int
    time: float
    anchor: Node | None


class RecentEvictions:
    """The latest evictions, one entry for all that went of one path; bounded in number and bytes.

    The number bounds the time of a look, which compares with every entry.
    """

    def __init__(self, max_entries: int = 256, max_bytes: int = 4 << 20) -> None:
        self._entries: deque[_Eviction] = deque()
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._num_bytes = 0

    def extend(self, leaf: Node, end: int, time: float) -> bool:
        """Take in that `leaf` is cut at `end`, if the latest entry is of the same path."""
        if not self._entries:
            return False
        entry = self._entries[-1]
        if entry.anchor is not leaf or entry.start != leaf.end:
            return False
        entry.start, entry.time = end, time
        entry.anchor = leaf if end > leaf.start else leaf.parent
        return True

    def add(self, namespace: bytes, tokens: bytes, leaf: Node, end: int, time: float) -> None:
        """Take in that `leaf`, the tip of the path `tokens`, is cut at `end`."""
        anchor = leaf if end > leaf.start else leaf.parent
        if self._entries:
            self._entries[-1].anchor = None
        self._entries.append(_Eviction(namespace, tokens, end, time, anchor))
        self._num_bytes += len(tokens)
        while len(self._entries) > self._max_entries or self._num_bytes > self._max_bytes:
            self._num_bytes -= len(self._entries.popleft().tokens)

    def find(self, namespace: bytes, tokens: bytes, length: int) -> tuple[int, float] | None:
        """If what follows the first `length` of `tokens` was evicted: up to where, and when.

        From the newest to the oldest, each entry carries on where the newer ones end.
        """
        reach, when = length, None
        known = tokens[: (reach + 1) * TOKEN_BYTES]
        for entry in reversed(self._entries):
            if len(known) <= reach * TOKEN_BYTES:
                break
            covers = entry.start <= reach and entry.namespace == namespace
            if covers and entry.tokens.startswith(known):
                reach = common_length(entry.tokens, tokens)
                known = tokens[: (reach + 1) * TOKEN_BYTES]
                when = entry.time if when is None else when
        return None if when is None else (reach, when)

    def forget(self, namespace: bytes, tokens: bytes, start: int) -> None:
        """Drop the entries of a deleted path beyond `start`, and of what followed it."""
        kept = [
            entry
            for entry in self._entries
            if entry.namespace != namespace
            or len(entry.tokens) <= start * TOKEN_BYTES
            or not (entry.tokens.startswith(tokens) or tokens.startswith(entry.tokens))
        ]
        self._entries = deque(kept)
        self._num_bytes = sum(len(entry.tokens) for entry in kept)
