"""Tests of the check itself: it must be able to fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from radixchat.radix.allocation import Allocation
from radixchat.radix.cache import PrefixCache
from radixchat.radix.node import Node


def _cache() -> tuple[PrefixCache, Allocation]:
    """Three nodes, one of them held by a live request that has private pages."""
    cache = PrefixCache(12, 4)
    for tail in ([1] * 5, [2] * 5):
        allocation = cache.allocate([0] * 6 + tail)
        assert allocation is not None
        allocation.copies.clear()
        cache.commit(allocation, [0] * 6 + tail)
        cache.release(allocation)
    live = cache.allocate([0] * 6 + [1] * 3 + [3] * 8)
    assert live is not None
    return cache, live


def _node(cache: PrefixCache, start: int, *, held: bool) -> Node:
    (node,) = (
        node
        for node in cache._tree.nodes()
        if node.parent is not None and node.start == start and (node.locks > 0) == held
    )
    return node


def _lose_page(cache: PrefixCache, live: Allocation) -> None:
    cache._pool.take(1)


def _share_private_page(cache: PrefixCache, live: Allocation) -> None:
    live.num_shared += 1


def _lose_lock(cache: PrefixCache, live: Allocation) -> None:
    _node(cache, 0, held=True).locks -= 1


def _forget_leaf(cache: PrefixCache, live: Allocation) -> None:
    cache._tree.policy.discard(_node(cache, 6, held=False))


def _order_held_node(cache: PrefixCache, live: Allocation) -> None:
    cache._tree.policy.add(_node(cache, 6, held=True))


def _count_tokens_wrong(cache: PrefixCache, live: Allocation) -> None:
    cache._tree.num_tokens += 1


def _count_nodes_wrong(cache: PrefixCache, live: Allocation) -> None:
    cache._tree.num_nodes -= 1


def _count_evictable_wrong(cache: PrefixCache, live: Allocation) -> None:
    cache._tree.num_evictable += 1


def _empty_span(cache: PrefixCache, live: Allocation) -> None:
    del _node(cache, 6, held=False).key[:]


def _lose_table_entry(cache: PrefixCache, live: Allocation) -> None:
    live.pages[0] = live.pages[-1]


def _point_at_free_page(cache: PrefixCache, live: Allocation) -> None:
    page = cache._pool._free[0]
    live.pages[-1] = page


def _child_under_wrong_token(cache: PrefixCache, live: Allocation) -> None:
    children = _node(cache, 0, held=True).children
    children[9] = children.pop(1)


def _moved_anchor(cache: PrefixCache, live: Allocation) -> None:
    live.num_committed += 1


def _emptied_root(cache: PrefixCache, live: Allocation) -> None:
    cache._tree.roots[b"other"] = type(cache._tree.roots[b""])(b"other")


@pytest.mark.parametrize(
    "damage",
    [
        _lose_page,
        _share_private_page,
        _lose_lock,
        _forget_leaf,
        _order_held_node,
        _count_tokens_wrong,
        _count_nodes_wrong,
        _count_evictable_wrong,
        _empty_span,
        _lose_table_entry,
        _point_at_free_page,
        _child_under_wrong_token,
        _moved_anchor,
        _emptied_root,
    ],
)
def test_check_finds_damage(damage: Callable[[PrefixCache, Allocation], None]) -> None:
    """Each kind of damage is found, in a cache that passes before it."""
    cache, live = _cache()
    cache.check()
    damage(cache, live)
    with pytest.raises(AssertionError):
        cache.check()
