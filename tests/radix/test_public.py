"""Tests of public prefixes: shared by all tenants, and nothing else is."""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Callable

import numpy as np
import pytest

from radixchat.radix.allocation import Allocation, Tokens
from radixchat.radix.cache import PrefixCache
from radixchat.radix.eviction import LruPolicy
from radixchat.radix.policies import make_policy
from radixchat.radix.public import PublicPrefixCache
from radixchat.radix.tenants import TenantLimits, TenantOrder

SYSTEM = list(range(100, 120))  # five pages of 4
DECLARED = [*SYSTEM, 99]
A, B = b"a" * 32, b"b" * 32


def _cache(num_pages: int = 64, prefixes: tuple[list[int], ...] = (DECLARED,)) -> PublicPrefixCache:
    return PublicPrefixCache(PrefixCache(num_pages, 4), prefixes)


def _serve(cache: PublicPrefixCache, tokens: list[int], namespace: bytes) -> int:
    """Compute, commit and release a prompt; returns how much of it was cached."""
    allocation = cache.allocate(tokens, namespace, "conversation")
    assert allocation is not None
    allocation.copies.clear()
    cache.commit(allocation, tokens)
    cache.check()
    cache.release(allocation)
    cache.check()
    return allocation.num_cached


def test_another_tenant_finds_the_public_part_only() -> None:
    """B's prompt is A's, to the token; what B finds is the operator's system prompt."""
    cache, prompt = _cache(), [*SYSTEM, 1, 2, 3, 4, 5, 6]
    assert _serve(cache, prompt, A) == 0
    assert cache.match(prompt, B).length == len(SYSTEM)
    assert _serve(cache, prompt, B) == len(SYSTEM)
    assert _serve(cache, prompt, A) == _serve(cache, prompt, B) == len(prompt) - 1


@pytest.mark.parametrize(("leave", "cached"), [(1, 25), (6, 20), (7, 19), (26, 0)])
def test_tokens_to_compute_may_reach_into_the_prefix(leave: int, cached: int) -> None:
    """Nothing of the part that is to be computed is taken from the public root either."""
    cache, prompt = _cache(), [*SYSTEM, 1, 2, 3, 4, 5, 6]
    _serve(cache, prompt, A)
    request = cache.allocate(prompt, A, leave=leave)
    assert request is not None
    assert request.num_cached == (cached if cached >= len(SYSTEM) else 0)
    request.copies.clear()
    cache.commit(request, prompt)
    cache.check()
    cache.release(request)
    assert cache.match(prompt, B).length == len(SYSTEM)


def test_pages_for_guesses_go_back() -> None:
    """Those of the private part, down to what its tokens need; the public part stays whole."""
    cache, prompt = _cache(), [*SYSTEM, 1, 2, 3]
    request = cache.allocate(prompt, A)
    assert request is not None
    assert cache.extend(request, 40)
    cache.trim(request, len(prompt))
    cache.check()
    assert len(request.pages) == 6
    cache.trim(request, 1)
    cache.check()
    assert len(request.pages) == 6


def test_without_a_declaration_nothing_is_shared() -> None:
    """The control: the same system prompt, not declared, stays each tenant's own."""
    cache, prompt = _cache(prefixes=()), [*SYSTEM, 1, 2, 3]
    _serve(cache, prompt, A)
    assert cache.match(prompt, B).length == _serve(cache, prompt, B) == 0


def test_only_whole_pages_are_public() -> None:
    """The partly filled last page of a declared prefix is private, so a shorter one all is."""
    cache = _cache(prefixes=([*SYSTEM, 7, 8], [1, 2, 3]))
    _serve(cache, [*SYSTEM, 7, 8, 9], A)
    assert cache.match([*SYSTEM, 7, 8, 9], B).length == len(SYSTEM)
    _serve(cache, [1, 2, 3, 4, 5, 6, 7, 8], A)
    assert cache.match([1, 2, 3, 4, 5, 6, 7, 8], B).length == 0


def test_prompt_that_is_the_prefix() -> None:
    """A prompt with nothing after the public prefix is found whole by what goes on from it."""
    cache = _cache()
    assert _serve(cache, DECLARED, A) == 0
    assert _serve(cache, [*DECLARED, 1], B) == len(SYSTEM)
    assert _serve(cache, [*DECLARED, 2], A) == len(DECLARED)


def test_pages_of_the_prefix_are_held_once() -> None:
    """Ten tenants at once keep one copy of the system prompt."""
    cache = _cache()
    live = []
    for tenant in range(10):
        allocation = cache.allocate([*SYSTEM, tenant, 1], b"%d" % tenant)
        assert allocation is not None
        cache.commit(allocation, [*SYSTEM, tenant, 1])
        live.append(allocation)
    assert cache.num_cached_pages == 5 + 10
    for allocation in live:
        cache.release(allocation)
    cache.flush()
    assert cache.num_free_pages == cache.num_pages
    assert cache.num_nodes == 0


def test_pool_of_exactly_the_request_is_enough() -> None:
    """Public prefixes that part in mid-page cannot keep a lone request out."""
    other = [*SYSTEM[:6], *range(300, 314)]
    cache = _cache(num_pages=10, prefixes=(DECLARED, [*other, 99]))
    for system in (SYSTEM, other, SYSTEM, other):
        tokens = [*system, *range(500, 520)]
        assert _serve(cache, tokens, A) < len(tokens)


def test_a_purge_reaches_the_private_part() -> None:
    """It leaves the public prefix."""
    cache, prompt = _cache(), [*SYSTEM, 1, 2, 3, 4, 5, 6, 7, 8]
    _serve(cache, prompt, A)
    assert cache.purge(prompt, "conversation", A) == 2
    assert cache.match(prompt, A).length == len(SYSTEM)
    cache.check()


def test_a_purge_finds_what_grew_from_the_prefix_alone() -> None:
    """A prompt of the public tokens only lies in the tenant's own root; so does its answer."""
    cache, whole = _cache(), [*SYSTEM, 1, 2, 3, 4, 5, 6, 7, 8]
    allocation = cache.allocate(SYSTEM, A, "conversation")
    assert allocation is not None
    assert cache.extend(allocation, len(whole))
    cache.commit(allocation, whole)
    cache.release(allocation)
    assert cache.purge(whole, "conversation", A) == 7
    assert cache.num_cached_pages == 0
    cache.check()


@pytest.mark.parametrize("is_left", [True, False])
def test_a_branch_that_was_left_goes_first(is_left: bool) -> None:
    """It is found below the public prefix; the control is an older one, which goes otherwise."""
    policy = make_policy("chat", 10, lambda: 0.0)
    cache = PublicPrefixCache(PrefixCache(10, 4, policy, clock=lambda: 0.0), (DECLARED,))
    older, left = [*SYSTEM, *range(8)], [*SYSTEM, *range(50, 58)]
    _serve(cache, older, A)
    _serve(cache, left, A)
    if is_left:
        cache.supersede(left, len(SYSTEM) + 4, "conversation", A)
    _serve(cache, [7] * 8, B)
    assert (cache.match(left, A).length == len(left)) != is_left
    assert (cache.match(older, A).length == len(older)) == is_left


@pytest.mark.parametrize("seed", range(6))
def test_every_read_is_of_the_right_prefix(seed: int) -> None:
    """Random requests side by side, in a small pool: no page ever holds another's K/V."""
    draw = random.Random(seed)
    cache = _cache(num_pages=40, prefixes=(DECLARED, [*SYSTEM[:10], *range(200, 212)]))
    store = np.zeros((40, 4), np.int64)
    running: list[tuple[Allocation, list[int], bytes, int]] = []
    seen: list[list[int]] = [DECLARED]
    found: list[int] = []

    def key(tokens: list[int], position: int, namespace: bytes) -> int:
        prefix = cache._prefix_of(tokens)
        owner = b"" if prefix is not None and position < prefix.size else namespace
        return hash((tuple(tokens[: position + 1]), owner))

    def check(allocation: Allocation, tokens: list[int], namespace: bytes, computed: int) -> None:
        for position in range(computed):
            page = allocation.pages[position // 4]
            for copy in allocation.copies:
                page = copy.source if page == copy.destination else page
            assert store[page, position % 4] == key(tokens, position, namespace)

    for _ in range(400):
        if draw.random() < 0.4 or not running:
            trunk = draw.choice([DECLARED, *seen[-6:]])
            tail = draw.choices([1, 2], k=draw.randint(1, 12))
            kept = draw.choice([len(trunk), len(trunk), draw.randint(0, len(trunk))])
            tokens = (trunk[:kept] + tail)[:60]
            namespace = draw.choice([A, B])
            allocation = cache.allocate(tokens, namespace)
            if allocation is None:
                assert running
                continue
            seen.append(tokens)
            found.append(allocation.num_cached)
            running.append((allocation, tokens, namespace, allocation.num_cached))
        else:
            index = draw.randrange(len(running))
            allocation, tokens, namespace, computed = running[index]
            check(*running[index])
            for copy in allocation.copies:
                store[copy.destination, : copy.num_slots] = store[copy.source, : copy.num_slots]
            allocation.copies.clear()
            end = min(len(tokens), computed + draw.randint(1, 12))
            for position in range(computed, end):
                slot = allocation.pages[position // 4], position % 4
                store[slot] = key(tokens, position, namespace)
            cache.commit(allocation, tokens[:end])
            running[index] = (allocation, tokens, namespace, end)
            check(*running[index])
            if end == len(tokens) or draw.random() < 0.2:
                cache.release(allocation)
                del running[index]
        cache.check()
    assert len(SYSTEM) in found, "a public prefix alone was never found"
    assert sum(count > len(SYSTEM) for count in found) > 20, "the private part was hardly found"
    for allocation, *_ in running:
        cache.release(allocation)
    cache.flush()
    assert cache.num_free_pages == cache.num_pages


def test_a_copy_that_was_made_is_not_asked_again() -> None:
    """A request may grow between its copy and its first commit."""
    cache = _cache()
    _serve(cache, [*SYSTEM, 1, 2], A)
    allocation = cache.allocate([*SYSTEM, 1, 2, 3], A)
    assert allocation is not None
    assert len(allocation.copies) == 1
    assert cache.extend(allocation, len(SYSTEM) + 4)
    assert len(allocation.copies) == 1, "it is not made yet"
    allocation.copies.clear()
    assert cache.extend(allocation, len(SYSTEM) + 9)
    assert allocation.copies == []
    cache.commit(allocation, [*SYSTEM, 1, 2, 3])
    cache.check()


def test_tenants_limits_are_refused() -> None:
    """They are counted by root, and below a public prefix a tenant has another."""
    cache = PrefixCache(10, 4, TenantOrder(LruPolicy, {A: TenantLimits(quota=16)}))
    with pytest.raises(ValueError, match="do not reach below a public prefix"):
        PublicPrefixCache(cache, (DECLARED,))


@pytest.mark.parametrize("kind", [list, tuple, lambda t: array("i", t), np.int32])
def test_tokens_may_be_any_sequence(kind: Callable[[list[int]], Tokens]) -> None:
    """A prefix is found in lists and in arrays alike, and what one computed by the others."""
    cache, prompt = _cache(), [*SYSTEM, 1, 2, 3, 4, 5, 6]
    _serve(cache, prompt, A)
    assert cache.match(kind(prompt), A).length == len(prompt)
    assert cache.match(kind(prompt), B).length == len(SYSTEM)
    assert cache.match(kind([*SYSTEM[:-1], 7, 1]), B).length == 0
    assert cache.match(kind(SYSTEM), B).length == 0
    allocation = cache.allocate(kind(prompt), B)
    assert allocation is not None
    assert allocation.num_cached == len(SYSTEM)
    cache.release(allocation)
    cache.supersede(kind(prompt), 22, "conversation", A)
    assert cache.purge(kind(prompt), "conversation", A) == 2
    assert cache.match(prompt, A).length == len(SYSTEM)


@pytest.mark.parametrize("kind", [list, np.int32])
def test_a_long_prefix_takes_no_more_steps(kind: Callable[[list[int]], Tokens]) -> None:
    """No Python runs for each of its tokens when a prompt is looked up."""

    def calls(length: int) -> int:
        prefix = list(range(length))
        cache = _cache(num_pages=512, prefixes=([*prefix, 1],))
        _serve(cache, [*prefix, 1, 2, 3], A)
        events: list[str] = []
        sys.setprofile(lambda frame, event, argument: events.append(event))
        cache.match(kind([*prefix, 1, 2, 3]), A)
        sys.setprofile(None)
        return len(events)

    assert calls(1600) == calls(80)
