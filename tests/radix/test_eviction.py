"""Tests of the eviction order, and of LRU against a reference that knows no tree."""

from __future__ import annotations

import random
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.radix.cache import PrefixCache
from radixchat.radix.eviction import LeafHeap, LruPolicy
from radixchat.radix.node import Node
from radixchat.radix.use import Use


def _leaf(stamp: int = 0) -> Node:
    leaf = Node(0, bytearray(4), array("i", [0]), None)
    leaf.use = Use(stamp, 0.0, None, 1)
    return leaf


def test_heap_gives_smallest_first() -> None:
    """Leaves come by priority, whatever the order in which they were added."""
    heap, leaves = LeafHeap(), [_leaf() for _ in range(50)]
    for priority in random.Random(0).sample(range(50), 50):
        heap.add(leaves[priority], priority)
    for leaf in leaves:
        assert heap.first() is leaf
        heap.discard(leaf)
    assert heap.first() is None


def test_heap_ignores_stale_entries() -> None:
    """A leaf that was discarded and added again counts with its new priority only."""
    heap, old, new = LeafHeap(), _leaf(), _leaf()
    heap.add(new, 1)
    heap.add(old, 2)
    heap.discard(new)
    heap.add(new, 3)
    assert heap.first() is old
    assert sorted(map(id, heap.leaves())) == sorted([id(old), id(new)])


def test_heap_stays_small() -> None:
    """Touching leaves for ever does not let stale entries pile up."""
    heap, leaves = LeafHeap(), [_leaf() for _ in range(100)]
    for priority, leaf in enumerate(leaves):
        heap.add(leaf, priority)
    for priority in range(100, 20_000):
        leaf = leaves[priority % 100]
        heap.discard(leaf)
        heap.add(leaf, priority)
        assert len(heap._heap) <= 2 * 100 + LeafHeap._SLACK + 1
    assert heap.first() is leaves[0]


def test_heap_wants_each_leaf_once() -> None:
    """Adding a leaf twice, or removing one that is not there, is an error."""
    heap, leaf = LeafHeap(), _leaf()
    with pytest.raises(AssertionError, match="not in the order"):
        heap.discard(leaf)
    heap.add(leaf, 0)
    with pytest.raises(AssertionError, match="already"):
        heap.add(leaf, 0)


def test_lru_victim_stays_until_it_is_discarded() -> None:
    """`victim` only looks, so a leaf that was trimmed in part is the victim again."""
    policy, leaf = LruPolicy(), _leaf(stamp=4)
    policy.add(leaf)
    assert policy.victim() is policy.victim() is leaf


class _ReferenceLru:
    """One token a page, as a set of prefixes with the time of their last use."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used: dict[tuple[int, ...], int] = {}
        self.now = 0

    def serve(self, tokens: tuple[int, ...]) -> int:
        """Serve one request that fits; returns how many tokens were cached."""
        path = [tokens[:length] for length in range(1, len(tokens) + 1)]
        cached = sum(prefix in self.used for prefix in path[:-1])
        locked = set(path[:cached])
        while len(self.used) + len(tokens) - cached > self.capacity:
            inner = {prefix[:-1] for prefix in self.used} | locked
            del self.used[min(self.used.keys() - inner, key=self.used.__getitem__)]
        self.now += 1
        self.used.update(dict.fromkeys(path, self.now))
        return cached


_REQUESTS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 12), st.lists(st.integers(0, 1), max_size=6)),
    min_size=5,
    max_size=40,
)


@settings(deadline=None, max_examples=300)
@given(_REQUESTS, st.integers(8, 40))
def test_lru_decides_like_a_reference(
    requests: list[tuple[int, int, list[int]]], capacity: int
) -> None:
    """Page size 1: after every request exactly the same prefixes are cached as in the reference.

    Splits and merges leave recency alone: a node that two requests used to different depths
    is trimmed to the depth of the later use first.
    """
    cache, reference = PrefixCache(capacity, 1), _ReferenceLru(capacity)
    history: list[tuple[int, ...]] = [(0, 1, 1, 0, 0, 0, 1, 0)]
    for which, back, tail in requests:
        trunk = history[which % len(history)]
        tokens = (trunk[: max(0, len(trunk) - back)] + tuple(tail))[: capacity - 1] or (0,)
        history.append(tokens)
        allocation = cache.allocate(tokens)
        assert allocation is not None
        assert allocation.num_cached == reference.serve(tokens)
        cache.commit(allocation, tokens)
        cache.release(allocation)
        cache.check()
        assert cache.num_cached_tokens == len(reference.used)
        assert all(cache.match(prefix).length == len(prefix) for prefix in reference.used)
