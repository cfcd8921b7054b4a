"""A namespace is flushed: all of it goes but what is held, nothing of others; evictions count."""

from __future__ import annotations

import random

from radixchat.radix.cache import PrefixCache
from radixchat.radix.events import EventLog
from radixchat.radix.public import PublicPrefixCache
from radixchat.radix.uncached import UncachedPages

A, B = b"a", b"b"
TRUNK = list(range(1, 33))


def fill(cache: PrefixCache | PublicPrefixCache, namespace: bytes, *paths: list[int]) -> None:
    for path in paths:
        allocation = cache.allocate(path, namespace)
        assert allocation is not None
        allocation.copies.clear()
        cache.commit(allocation, path)
        cache.release(allocation)
    cache.check()


def test_only_one_namespace_goes() -> None:
    """The tokens of the other are all there, and the pages are free."""
    cache = PrefixCache(64, 4)
    branches = [TRUNK + [50] * 9, TRUNK + [60] * 6, TRUNK[:10] + [70] * 3, TRUNK[:10]]
    fill(cache, A, *branches)
    fill(cache, B, *branches)
    free = cache.num_free_pages
    freed = cache.flush(A)
    cache.check()
    assert freed > 0
    assert cache.num_free_pages == free + freed
    assert [cache.match(path, A).length for path in branches] == [0, 0, 0, 0]
    assert [cache.match(path, B).length for path in branches] == [len(path) for path in branches]
    assert cache.flush(A) == 0
    assert cache.flush(b"nobody") == 0


def test_what_is_held_stays() -> None:
    """A running request keeps its path; the branch beside it goes."""
    cache = PrefixCache(64, 4)
    fill(cache, A, TRUNK + [50] * 8, TRUNK + [60] * 8)
    held = cache.allocate(TRUNK + [50] * 9, A)
    assert held is not None
    cache.flush(A)
    cache.check()
    assert cache.match(TRUNK + [50] * 8, A).length == 40
    assert cache.match(TRUNK + [60] * 8, A).length == 32
    held.copies.clear()
    cache.release(held)
    cache.flush(A)
    assert cache.num_free_pages == cache.num_pages


def test_any_tree_goes() -> None:
    """Random chats, flushed one namespace after the other, leave an empty pool."""
    draw = random.Random(3)
    for _ in range(30):
        cache = PrefixCache(400, 4, events=EventLog())
        for namespace in (A, B):
            paths = [TRUNK[: draw.randrange(1, 32)] + [draw.randrange(3)] * 5 for _ in range(12)]
            fill(cache, namespace, *paths)
        before = cache.num_cached_tokens
        cache.flush(A)
        cache.check()
        assert 0 < cache.num_cached_tokens < before
        cache.flush(B)
        cache.check()
        assert cache.num_cached_tokens == cache.num_nodes == 0
        assert cache.num_free_pages == cache.num_pages
        assert cache.num_evicted_tokens == 0, "nothing had to make room"


def test_a_public_prefix_stays() -> None:
    """The private parts below every public prefix go, the prefix itself is everybody's."""
    cache = PublicPrefixCache(PrefixCache(64, 4), [TRUNK])
    fill(cache, A, TRUNK + [50] * 8, [70] * 8)
    cache.flush(A)
    cache.check()
    assert cache.match(TRUNK + [50] * 8, A).length == 28
    assert cache.match([70] * 8, A).length == 0


def test_evictions_are_counted() -> None:
    """In tokens, when something has to make room; a purge is none."""
    cache = PrefixCache(10, 4)
    fill(cache, A, TRUNK)
    assert cache.num_evicted_tokens == 0
    fill(cache, B, TRUNK)
    assert cache.num_evicted_tokens == 32 - cache.match(TRUNK, A).length > 0
    counted = cache.num_evicted_tokens
    cache.purge(TRUNK, "chat", B)
    assert cache.num_evicted_tokens == counted
    assert PublicPrefixCache(PrefixCache(8, 4), [TRUNK]).num_evicted_tokens == 0


def test_without_a_cache_there_is_nothing_to_flush() -> None:
    """Neither pages nor counts."""
    cache = UncachedPages(8, 4)
    assert cache.flush(A) == cache.num_evicted_tokens == 0
