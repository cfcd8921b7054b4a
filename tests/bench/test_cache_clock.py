"""`CacheClock`: times a cache from outside."""

from __future__ import annotations

import time

from radixchat.bench.cache_clock import CacheClock
from radixchat.radix.cache import PrefixCache
from radixchat.radix.public import PublicPrefixCache
from radixchat.radix.uncached import UncachedPages


def test_it_changes_nothing() -> None:
    """A timed cache gives what it gave; the time is above zero and below that of the caller."""
    cache = PrefixCache(8, 4)
    clock = CacheClock(cache)
    started = time.perf_counter()
    allocation = cache.allocate([1, 2, 3, 4, 5])
    assert allocation is not None
    assert cache.extend(allocation, 9)
    assert cache.commit(allocation, [1, 2, 3, 4, 5]) == 5
    cache.release(allocation)
    assert cache.match([1, 2, 3, 4, 5]).length == 5
    elapsed = time.perf_counter() - started
    cache.check()
    assert clock.calls == 5
    assert 0 < clock.seconds < elapsed


def test_a_call_within_a_call_is_counted_once() -> None:
    """A cache of public prefixes matches its own; without a tree allocate extends."""
    uncached = UncachedPages(8, 4)
    clock = CacheClock(uncached)
    assert uncached.allocate([1, 2, 3]) is not None
    assert clock.calls == 1
    public = PublicPrefixCache(PrefixCache(8, 4), ((1, 2, 3, 4),))
    clock = CacheClock(public)
    assert public.allocate([1, 2, 3, 4, 5], b"a") is not None
    assert clock.calls == 1


def test_an_error_is_timed_and_passed_on() -> None:
    """The next call is timed as well."""
    uncached = UncachedPages(8, 4)
    clock = CacheClock(uncached)
    try:
        uncached.allocate([])
    except AssertionError:
        assert clock.calls == 1
    assert uncached.allocate([1]) is not None
    assert clock.calls == 2
