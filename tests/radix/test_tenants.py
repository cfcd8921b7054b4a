"""Tests of floors and quotas: soft protection that never costs a request its room."""

from __future__ import annotations

import random

import pytest

from radixchat.radix.cache import PrefixCache
from radixchat.radix.eviction import LruPolicy
from radixchat.radix.policies import POLICY_NAMES, make_policy
from radixchat.radix.tenants import TenantLimits, TenantOrder

A, B, C = b"a", b"b", b"c"


def _cache(num_pages: int, limits: dict[bytes, TenantLimits], page_size: int = 4) -> PrefixCache:
    return PrefixCache(num_pages, page_size, TenantOrder(LruPolicy, limits))


def _serve(cache: PrefixCache, tokens: list[int], namespace: bytes) -> int:
    """Compute, commit and release a prompt; returns how much of it was cached."""
    allocation = cache.allocate(tokens, namespace)
    assert allocation is not None
    allocation.copies.clear()
    cache.commit(allocation, tokens)
    cache.release(allocation)
    cache.check()
    return allocation.num_cached


def _cached(cache: PrefixCache, namespace: bytes) -> int:
    roots = cache._tree.roots
    return roots[namespace].num_tokens if namespace in roots else 0


def test_flood_leaves_a_floor() -> None:
    """Whatever another tenant asks for, the floor's tokens stay, the oldest though they are.

    To a page: the last one that goes may reach below the floor.
    """
    cache = _cache(20, {A: TenantLimits(floor=24)})
    _serve(cache, list(range(40)), A)
    for start in range(100, 1000, 20):
        _serve(cache, list(range(start, start + 40)), B)
    assert _cached(cache, A) == 24
    assert _serve(cache, list(range(40)), A) == 24


def test_without_a_floor_the_flood_takes_all() -> None:
    """The control: the same traffic without the limit leaves nothing."""
    cache = _cache(20, {})
    _serve(cache, list(range(40)), A)
    for start in range(100, 1000, 20):
        _serve(cache, list(range(start, start + 40)), B)
    assert _cached(cache, A) == 0


def test_floor_gives_way_when_nothing_else_is_left() -> None:
    """A request that fits the pool gets its pages, whatever the floors add up to."""
    cache = _cache(10, {A: TenantLimits(floor=20), B: TenantLimits(floor=20)})
    _serve(cache, list(range(20)), A)
    _serve(cache, list(range(20)), B)
    whole = cache.allocate(list(range(40)), C)
    assert whole is not None
    cache.release(whole)
    cache.check()


def test_quota_takes_from_the_tenant_itself() -> None:
    """Above its quota a tenant loses its own least recent tokens, and nobody else's."""
    cache = _cache(100, {A: TenantLimits(quota=50)})
    _serve(cache, list(range(40)), B)
    for start in (1000, 2000, 3000):
        _serve(cache, list(range(start, start + 24)), A)
    assert _cached(cache, A) in range(47, 51)
    assert _cached(cache, B) == 40
    assert _serve(cache, list(range(3000, 3024)), A) == 23


def test_quota_never_touches_what_is_held() -> None:
    """A tenant's running request may be larger than its quota; it shrinks when it is released."""
    cache = _cache(100, {A: TenantLimits(quota=10)})
    held = cache.allocate(list(range(80)), A)
    assert held is not None
    cache.commit(held, list(range(80)))
    _serve(cache, list(range(500, 520)), A)
    assert _cached(cache, A) == 80
    cache.release(held)
    assert _cached(cache, A) <= 10
    cache.check()


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_limits_hold_in_any_traffic(policy: str) -> None:
    """Random traffic of three tenants: invariants, quotas, and floors whenever others can give."""
    limits = {A: TenantLimits(floor=64, quota=120), B: TenantLimits(quota=80)}
    order = TenantOrder(lambda: make_policy(policy, 60, lambda: 0.0), limits)
    cache = PrefixCache(60, 4, order)
    draw = random.Random(policy)
    for _ in range(300):
        namespace = draw.choice([A, B, C])
        before = _cached(cache, A)
        start = draw.randrange(0, 400, 40)
        _serve(cache, list(range(start, start + draw.randint(1, 60))), namespace)
        assert _cached(cache, A) <= 120
        assert _cached(cache, B) <= 80
        if namespace != A:
            assert _cached(cache, A) > min(64, before) - 4  # to a page


@pytest.mark.parametrize(
    ("floor", "quota", "message"),
    [(-1, None, "floor is -1"), (10, 9, "quota is 9"), (0, -1, "quota is -1")],
)
def test_impossible_limits_are_refused(floor: int, quota: int | None, message: str) -> None:
    """A limit that cannot be kept is refused with its value."""
    with pytest.raises(ValueError, match=message):
        TenantLimits(floor, quota)
