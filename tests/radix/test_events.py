"""Tests of the event log and of the ring of recent evictions, alone and through the cache."""

from __future__ import annotations

from array import array

import pytest

from radixchat.radix.allocation import EvictedPrefix
from radixchat.radix.cache import PrefixCache
from radixchat.radix.events import Event, EventLog, Evicted, Moved, RecentEvictions, Stored
from radixchat.radix.node import Node, Root
from radixchat.radix.tiers import Tier


def _bytes(*tokens: int) -> bytes:
    return array("i", tokens).tobytes()


def _serve(cache: PrefixCache, tokens: list[int], conversation: str | None = None) -> None:
    allocation = cache.allocate(tokens, conversation=conversation)
    assert allocation is not None
    allocation.copies.clear()
    cache.commit(allocation, tokens)
    cache.release(allocation)


def _press(cache: PrefixCache, num_pages: int) -> None:
    """Make room for so many pages, and leave them free."""
    allocation = cache.allocate([-1] * (num_pages * cache.page_size))
    assert allocation is not None
    cache.release(allocation)


def _log(count: int, max_bytes: int = 1 << 20) -> EventLog:
    """A log of `count` events of 8 bytes each."""
    log = EventLog(max_bytes)
    for number in range(1, count + 1):
        log.append(Stored(number, b"", _bytes(number, 0), 1))
    return log


# The log


def test_events_since_a_number() -> None:
    """Exactly the later events, in order; none after the last; the future is unknown."""
    log = _log(5)
    for sequence in range(6):
        events = log.since(sequence)
        assert events is not None
        assert [event.sequence for event in events] == list(range(sequence + 1, 6))
    assert log.since(6) is None
    assert log.since(-1) is None
    assert EventLog().since(0) == []


def test_log_is_bounded_in_bytes() -> None:
    """Old events go; whoever has not read them is told, not given what is left."""
    log = _log(10, max_bytes=3 * 8)
    assert log.sequence == 10
    later = log.since(7)
    assert later is not None
    assert [event.sequence for event in later] == [8, 9, 10]
    assert log.since(6) is None
    assert log.since(0) is None


def test_event_larger_than_the_log() -> None:
    """It counts, and cannot be read: a reader before it starts again, one after it does not."""
    log = _log(2, max_bytes=24)
    log.append(Stored(3, b"", _bytes(*range(7)), 0))
    assert log.sequence == 3
    assert log.since(2) is None
    assert log.since(3) == []
    log.append(Stored(4, b"", _bytes(1), 0))
    assert log.since(3) == [Stored(4, b"", _bytes(1), 0)]


@pytest.mark.parametrize("sequence", [0, 2, 4])
def test_gap_in_the_sequence_asserts(sequence: int) -> None:
    """An event carries the number after the last one."""
    with pytest.raises(AssertionError, match="gap"):
        _log(2).append(Stored(sequence, b"", b"", 0))


def test_cache_tells_what_is_stored_evicted_moved_and_purged() -> None:
    """Each event names the whole path, and from where on something changed."""
    log = EventLog()
    cache = PrefixCache(6, 2, events=log)
    _serve(cache, [1, 2, 3, 4, 5])
    _serve(cache, [1, 2, 3, 6], "ann")
    cache.move([1, 2, 3, 4], 2, Tier.DEVICE, Tier.HOST)
    _press(cache, 3)
    cache.purge([1, 2, 3, 6], "ann", start=1)
    assert log.since(0) == [
        Stored(1, b"", _bytes(1, 2, 3, 4, 5), 0),
        Stored(2, b"", _bytes(1, 2, 3, 6), 3),
        Moved(3, b"", _bytes(1, 2, 3, 4), 2, Tier.DEVICE, Tier.HOST),
        Evicted(4, b"", _bytes(1, 2, 3, 4, 5), 4),
        Evicted(5, b"", _bytes(1, 2, 3, 6), 3),
    ]


def test_commit_of_what_is_cached_is_no_event() -> None:
    """Only what is new is stored, chunk by chunk."""
    log = EventLog()
    cache = PrefixCache(12, 4, events=log)
    first, second = cache.allocate([7] * 6, b"a"), cache.allocate([7] * 6, b"a")
    assert first is not None
    assert second is not None
    for length in (3, 6):
        cache.commit(first, [7] * length)
        cache.commit(second, [7] * length)
    assert log.since(0) == [
        Stored(1, b"a", _bytes(*[7] * 3), 0),
        Stored(2, b"a", _bytes(*[7] * 6), 3),
    ]


class _Mirror:
    """What a reader keeps: every cached prefix, as bytes."""

    def __init__(self) -> None:
        self.prefixes: set[bytes] = set()
        self.sequence = 0
        self.restarts = 0

    def follow(self, cache: PrefixCache, log: EventLog) -> None:
        events = log.since(self.sequence)
        if events is None:
            self.restarts += 1
            self.prefixes.clear()
            for _, path in cache.paths():
                self._add(path, 0)
        else:
            for event in events:
                self._apply(event)
        self.sequence = log.sequence

    def _apply(self, event: Event) -> None:
        if isinstance(event, Stored):
            self._add(event.tokens, event.start)
        elif isinstance(event, Evicted):
            for end in range(4 * event.start + 4, len(event.tokens) + 1, 4):
                self.prefixes.remove(event.tokens[:end])

    def _add(self, path: bytes, start: int) -> None:
        self.prefixes.update(path[:end] for end in range(4 * start + 4, len(path) + 1, 4))


def test_mirror_that_lost_events_starts_again_from_the_paths() -> None:
    """A reader that is too slow for the log is never wrong, only slower."""
    log = EventLog(max_bytes=400)
    cache = PrefixCache(8, 4, events=log)
    eager, lazy = _Mirror(), _Mirror()
    for step in range(60):
        _serve(cache, [step % 3] * (4 + step % 5) + [step % 7] * (step % 11))
        eager.follow(cache, log)
        if step % 20 == 19:
            lazy.follow(cache, log)
            assert lazy.prefixes == eager.prefixes
            assert len(eager.prefixes) == cache.num_cached_tokens
    assert eager.restarts == 0
    assert lazy.restarts == 3


# The ring


def _node(start: int, length: int, parent: Node | None = None) -> Node:
    return Node(start, bytearray(4 * length), array("i"), parent or Root(b""))


def test_path_trimmed_page_by_page_is_one_entry() -> None:
    """From the tip through its parent, the entry goes on; the last time counts."""
    ring = RecentEvictions()
    trunk = _node(0, 4)
    leaf = _node(4, 6, trunk)
    path = _bytes(*range(10))
    assert not ring.extend(leaf, 8, 1.0)
    ring.add(b"", path, leaf, 8, 1.0)
    del leaf.key[4 * 4 :]
    assert ring.extend(leaf, 4, 2.0)
    assert ring.extend(trunk, 2, 3.0)
    assert len(ring._entries) == 1
    assert ring.find(b"", path, 2) == (10, 3.0)
    assert not ring.extend(leaf, 0, 4.0)


def test_another_leaf_begins_an_entry() -> None:
    """A leaf that is not the last one, or has grown since, is not the same path."""
    ring = RecentEvictions()
    leaf, other = _node(0, 6), _node(0, 4)
    ring.add(b"", _bytes(*range(6)), leaf, 4, 1.0)
    assert not ring.extend(other, 2, 2.0)  # it ends where the other was cut
    assert not ring.extend(leaf, 2, 2.0)  # as if it had grown again to 6
    ring.add(b"", _bytes(9, 9, 9, 9), other, 2, 2.0)
    del leaf.key[4 * 4 :]
    assert not ring.extend(leaf, 2, 3.0)


def test_find_says_how_far_the_path_is_known_and_when_it_went() -> None:
    """Up to the first token that differs, or to the end of either; nothing if the next one does."""
    ring = RecentEvictions()
    ring.add(b"", _bytes(1, 2, 3, 4, 5), _node(0, 5), 0, 7.0)
    for tokens, found in (
        ([1, 2, 3, 4, 5], 5),
        ([1, 2, 3, 4, 5, 6, 7], 5),
        ([1, 2, 3], 3),
        ([1, 2, 9, 4, 5], 2),
    ):
        assert ring.find(b"", _bytes(*tokens), 0) == (found, 7.0)
    assert ring.find(b"", _bytes(1, 2, 3, 4, 5), 4) == (5, 7.0)
    for tokens, length in (([2, 1], 0), ([1, 2, 9], 2), ([1, 2, 3], 3), ([1, 2, 3, 4, 5, 6], 5)):
        assert ring.find(b"", _bytes(*tokens), length) is None
    assert ring.find(b"other", _bytes(1, 2, 3), 0) is None


def test_token_is_compared_whole() -> None:
    """A path whose next token has the same first bytes is another one."""
    ring = RecentEvictions()
    ring.add(b"", _bytes(1, 258), _node(0, 2), 0, 1.0)
    assert ring.find(b"", _bytes(1, 514), 1) is None
    assert ring.find(b"", _bytes(1, 514), 0) == (1, 1.0)


def test_ring_is_bounded_in_number_and_bytes() -> None:
    """The oldest go first; an entry that is too large for the ring is not kept."""
    ring = RecentEvictions(max_entries=3, max_bytes=40)
    for token in range(5):
        ring.add(b"", _bytes(token), _node(0, 1), 0, float(token))
    kept = [ring.find(b"", _bytes(token), 0) is not None for token in range(5)]
    assert kept == [False, False, True, True, True]
    ring.add(b"", _bytes(*range(10, 18)), _node(0, 8), 0, 9.0)  # 32 bytes: two of 4 fit beside it
    kept = [ring.find(b"", _bytes(token), 0) is not None for token in (2, 3, 4, 10)]
    assert kept == [False, True, True, True]
    ring.add(b"", _bytes(*range(11)), _node(0, 11), 0, 9.0)
    assert not ring._entries
    assert ring._num_bytes == 0
    ring.add(b"", _bytes(1), _node(0, 1), 0, 9.0)
    assert ring.find(b"", _bytes(1), 0) == (1, 9.0)


def test_ring_forgets_a_path_and_what_followed_it() -> None:
    """Beyond the start; shorter parts of the path too; other paths and namespaces stay."""
    stays = ((b"b", (1, 2, 3, 4)), (b"", (1, 2)), (b"", (1, 2, 9)), (b"", (7,)))
    goes = ((b"", (1, 2, 3)), (b"", (1, 2, 3, 4)), (b"", (1, 2, 3, 4, 5, 6)))
    ring = RecentEvictions()
    for namespace, path in stays + goes:
        ring.add(namespace, _bytes(*path), _node(0, len(path)), 0, 1.0)
    ring.forget(b"", _bytes(1, 2, 3, 4), 2)
    left = [(entry.namespace, entry.tokens) for entry in ring._entries]
    assert left == [(namespace, _bytes(*path)) for namespace, path in stays]
    assert ring._num_bytes == sum(len(tokens) for _, tokens in left)


def test_ring_keeps_one_node_alive_at_most() -> None:
    """Only the latest entry may go on, so only that one knows its node."""
    ring = RecentEvictions()
    for token in range(4):
        ring.add(b"", _bytes(token), _node(0, 1), 0, 1.0)
    assert [entry.anchor is None for entry in ring._entries] == [True, True, True, False]


# Through the cache


def test_allocation_tells_what_was_evicted_and_when() -> None:
    """So many tokens were cached, and what is missing of them went 12 seconds ago."""
    now = [100.0]
    cache = PrefixCache(6, 2, clock=lambda: now[0])
    _serve(cache, list(range(12)))
    _press(cache, 1)
    now[0] = 110.0
    _press(cache, 3)
    now[0] = 122.0
    again = cache.allocate([*range(11), 99])
    assert again is not None
    assert again.num_cached == 6
    assert again.evicted == EvictedPrefix(11, 12.0)


def test_nothing_is_told_of_what_was_never_there() -> None:
    """Neither of a new prompt, nor where it parts from an evicted one, nor in another namespace."""
    cache = PrefixCache(8, 2)
    _serve(cache, [1, 2, 3, 4, 5, 6])
    _press(cache, 7)
    assert cache.match([1, 2, 3, 4, 5, 6]).length == 2
    for tokens, namespace in (([9, 2, 3], b""), ([1, 2, 9, 4], b""), ([1, 2, 3], b"other")):
        other = cache.allocate(tokens, namespace)
        assert other is not None
        assert other.evicted is None
        cache.release(other)


def test_what_came_back_is_not_told() -> None:
    """A path that was evicted and computed again is simply cached."""
    cache = PrefixCache(8, 2)
    _serve(cache, [1, 2, 3, 4, 5, 6])
    cache.flush()
    _serve(cache, [1, 2, 3, 4, 5, 6])
    again = cache.allocate([1, 2, 3, 4, 5, 6, 7])
    assert again is not None
    assert (again.num_cached, again.evicted) == (6, None)


@pytest.mark.parametrize("start", [0, 2])
def test_purged_path_was_not_evicted(start: int) -> None:
    """Evicted in part and then purged: nothing is told of it, nothing is left in the ring."""
    cache = PrefixCache(6, 1)
    _serve(cache, [1, 2, 3, 4, 5, 6], "ann")
    _press(cache, 2)
    assert len(cache._recent._entries) == 1
    assert cache.purge([1, 2, 3, 4, 5, 6], "ann", start=start) == 4 - start
    assert not cache._recent._entries
    again = cache.allocate([1, 2, 3, 4, 5, 6])
    assert again is not None
    assert (again.num_cached, again.evicted) == (start, None)


def test_other_branches_of_a_purged_conversation_are_forgotten() -> None:
    """A branch that was evicted in part goes with the path that is purged, from the ring too."""
    cache = PrefixCache(12, 1)
    _serve(cache, [1, 2, 3, 4, 5, 6], "ann")
    _serve(cache, [1, 2, 7, 8], "ann")
    _press(cache, 6)  # two tokens of the older branch go
    assert cache.purge([1, 2], "ann") == 6
    assert not cache._recent._entries
    again = cache.allocate([1, 2, 3, 4, 5, 6])
    assert again is not None
    assert (again.num_cached, again.evicted) == (0, None)


def test_purge_of_many_branches_keeps_those_of_another() -> None:
    """Thousands of leaves of two conversations below one path: the right half goes, once each."""
    cache = PrefixCache(5_000, 1)
    for number in range(2_000):
        _serve(cache, [1, 2, 10 + number, 3], ("ann", "bob")[number % 2])
    assert cache.purge([1, 2], "ann") == 2_000
    assert cache.num_cached_tokens == 2 + 2_000
    cache.check()
    assert cache.purge([1, 2], "bob") == 2_002
    assert cache.num_nodes == 0


def test_reach_of_several_evictions() -> None:
    """A path that went in two parts, for two reasons, is told as one, since the later."""
    now = [0.0]
    cache = PrefixCache(8, 1, clock=lambda: now[0])
    _serve(cache, [1, 2, 3, 4, 5, 6])
    _press(cache, 5)  # the path is cut at 3
    _serve(cache, [1, 2, 3, 7, 8])
    now[0] = 10.0
    cache.flush()
    now[0] = 15.0
    again = cache.allocate([1, 2, 3, 4, 5, 6, 0])
    assert again is not None
    assert again.evicted == EvictedPrefix(6, 5.0)


def test_head_that_was_deleted_was_not_evicted() -> None:
    """The tail of another path went before; what is missing first was deleted."""
    cache = PrefixCache(6, 1)
    _serve(cache, [1, 2, 3, 4, 5, 6], "ann")
    _press(cache, 3)  # cut at 3
    _serve(cache, [1, 2, 3, 9], "ann")
    cache.purge([1, 2, 3, 9], "ann")
    again = cache.allocate([1, 2, 3, 4, 5, 6])
    assert again is not None
    assert (again.num_cached, again.evicted) == (0, None)


def test_purge_of_nothing_forgets_nothing() -> None:
    """A conversation without tokens is deleted: what is known of the others stays."""
    cache = PrefixCache(6, 1)
    _serve(cache, [1, 2, 3, 4, 5, 6], "ann")
    _press(cache, 3)
    assert cache.purge([], "bob") == 0
    again = cache.allocate([1, 2, 3, 4, 5, 6])
    assert again is not None
    assert again.evicted is not None
    assert (again.num_cached, again.evicted.length) == (3, 5)
