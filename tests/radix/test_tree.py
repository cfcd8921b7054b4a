"""Tests of the tree through the cache: spans, splits, merges, trims."""

from __future__ import annotations

import random
import sys

from radixchat.radix.cache import PrefixCache
from radixchat.radix.node import Node


def _serve(cache: PrefixCache, tokens: list[int], namespace: bytes = b"") -> None:
    """Compute, commit and release one prompt."""
    allocation = cache.allocate(tokens, namespace)
    assert allocation is not None
    allocation.copies.clear()
    cache.commit(allocation, tokens)
    cache.release(allocation)
    cache.check()


def _spans(cache: PrefixCache) -> list[tuple[int, int]]:
    nodes = (node for node in cache._tree.nodes() if node.parent is not None)
    return sorted((node.start, node.end) for node in nodes)


def _only_node(cache: PrefixCache) -> Node:
    (node,) = (node for node in cache._tree.nodes() if node.parent is not None)
    return node


def test_one_prompt_is_one_node() -> None:
    """A prompt, the next turn and the turn after it stay one node when nobody branches."""
    cache = PrefixCache(16, 4)
    for length in (5, 8, 11, 30):
        _serve(cache, list(range(length)))
    assert _spans(cache) == [(0, 30)]


def test_branch_splits_at_the_exact_token() -> None:
    """A second continuation splits the node where the two differ, in mid-page too."""
    cache = PrefixCache(16, 4)
    _serve(cache, [1, 2, 3, 4, 5, 6, 7, 8, 9])
    _serve(cache, [1, 2, 3, 4, 5, 6, 70, 80])
    assert _spans(cache) == [(0, 6), (6, 8), (6, 9)]
    assert cache.num_nodes == 3
    assert cache.num_cached_tokens == 11


def test_probe_leaves_no_trace() -> None:
    """Acquiring any part of a node and letting go makes it one node again."""
    cache = PrefixCache(40, 4)
    tokens = list(range(50))
    _serve(cache, tokens)
    for length in random.Random(0).sample(range(1, 51), 50):
        allocation = cache.allocate([*tokens[:length], 99])
        assert allocation is not None
        assert allocation.num_cached == length
        assert cache.num_nodes == (1 if length == 50 else 2)
        cache.release(allocation)
        cache.check()
        assert cache.num_nodes == 1


def test_node_with_one_child_left_merges() -> None:
    """When eviction takes one of two branches, the other grows together with the trunk."""
    cache = PrefixCache(8, 4)
    _serve(cache, [0] * 8 + [1] * 8)
    _serve(cache, [0] * 8 + [2] * 8)
    assert _spans(cache) == [(0, 8), (8, 16), (8, 16)]
    _serve(cache, [3] * 16)
    assert cache.match([0] * 8 + [1]).length == 8
    assert cache.match([0] * 8 + [2] * 8).length == 16
    assert cache.num_nodes == 2


def test_eviction_trims_the_tip_and_keeps_the_head() -> None:
    """Exactly the pages needed go, from the end of the least recently used leaf."""
    cache = PrefixCache(8, 4)
    _serve(cache, list(range(30)))
    assert cache.num_free_pages == 0
    allocation = cache.allocate([100] * 5)
    assert allocation is not None
    assert cache.num_free_pages == 0
    assert cache.match(list(range(30))).length == 24
    assert _spans(cache) == [(0, 24)]
    cache.release(allocation)


def test_eviction_frees_a_split_page_last() -> None:
    """A page that two nodes share survives the lower one and goes with the upper one."""
    cache = PrefixCache(4, 4)
    _serve(cache, [1, 2, 3, 4, 5, 6, 7, 8])
    held = cache.allocate([1, 2, 3, 4, 5, 6, 0])
    assert held is not None
    assert cache.num_evictable_pages == 0
    cache.flush()
    assert _spans(cache) == [(0, 6)]
    cache.release(held)
    assert cache.num_evictable_pages == 2
    assert cache.flush() == 2


def test_least_recent_depth_goes_first() -> None:
    """Of a merged node the part that was used later stays longer, and no longer than that."""
    cache = PrefixCache(6, 4)
    _serve(cache, [1] * 12)  # three pages
    _serve(cache, [2] * 8)  # two pages, used later than the three
    probe = cache.allocate([1] * 4 + [9])  # the first of the three, used last
    assert probe is not None
    cache.release(probe)
    assert cache.num_nodes == 2
    _serve(cache, [3] * 12)
    assert (cache.match([1] * 12).length, cache.match([2] * 8).length) == (4, 8)
    _serve(cache, [4] * 4)
    assert (cache.match([1] * 12).length, cache.match([2] * 8).length) == (4, 4)


def test_namespaces_share_nothing() -> None:
    """Equal tokens under different names are different prefixes; an empty root disappears."""
    cache = PrefixCache(8, 4)
    _serve(cache, [1, 2, 3, 4, 5], b"ab")
    for other in (b"", b"a", b"abc", b"b"):
        assert cache.match([1, 2, 3, 4, 5], other).length == 0
    assert set(cache._tree.roots) == {b"ab"}
    cache.flush()
    assert not cache._tree.roots


def test_long_chains_do_not_recurse() -> None:
    """2,400 prompts, each a token longer than the one before, then every second one forked."""
    count = 2_400
    cache = PrefixCache(2 * count, 1)
    tokens = [0] * count
    for length in range(1, count + 1):
        allocation = cache.allocate(tokens[:length])
        assert allocation is not None
        assert allocation.num_cached == length - 1
        cache.commit(allocation, tokens[:length])
        cache.release(allocation)
    assert cache.num_nodes == 1
    for length in range(1, count, 2):
        allocation = cache.allocate([*tokens[:length], 1])
        assert allocation is not None
        cache.commit(allocation, [*tokens[:length], 1])
        cache.release(allocation)
    assert cache.num_nodes > 2 * sys.getrecursionlimit()
    assert cache.match(tokens).length == count
    cache.check()
    assert cache.flush() == count + count // 2
    assert cache.num_nodes == 0


def test_memory_is_compact_after_merges_and_trims() -> None:
    """A node keeps no more than twice the tokens and pages it stands for."""
    cache = PrefixCache(1_000, 4)
    tokens = list(range(3_000))
    _serve(cache, tokens)
    for length in range(100, 3_000, 100):
        _serve(cache, [*tokens[:length], -1])
    cache.flush()
    _serve(cache, tokens)
    held = cache.allocate([-2] * 3_800)
    assert held is not None
    node = _only_node(cache)
    assert node.end == 200
    assert sys.getsizeof(node.key) < 2 * 4 * 200 + 100
    assert sys.getsizeof(node.pages) < 2 * 4 * 50 + 100
    assert node.marks == ()


def test_marks_are_bounded_by_pages() -> None:
    """However many probes end at different tokens, a node remembers at most one use a page."""
    cache = PrefixCache(20, 16)
    tokens = list(range(200))
    _serve(cache, tokens)
    for length in range(199, 0, -1):
        probe = cache.allocate([*tokens[:length], -1])
        assert probe is not None
        cache.release(probe)
    cache.check()
    assert len(_only_node(cache).marks) < 200 / 16
