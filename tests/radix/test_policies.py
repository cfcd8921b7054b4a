"""Tests of the policies by name."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from radixchat.radix.cache import PrefixCache
from radixchat.radix.policies import POLICY_NAMES, make_policy
from radixchat.radix.use import Signal


@dataclass(slots=True)
class _Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_name_has_its_policy() -> None:
    """Every name makes a policy of its own kind, empty."""
    made = [make_policy(name, 8, _Clock()) for name in POLICY_NAMES]
    assert len({type(policy) for policy in made}) == len(POLICY_NAMES)
    assert all(policy.victim() is None and not list(policy.leaves()) for policy in made)


def test_a_name_that_is_none() -> None:
    """The message names what there is."""
    with pytest.raises(
        ValueError, match=r"policy is 'mru'; it must be one of lru, slru, tlru, chat"
    ):
        make_policy("mru", 8, _Clock())


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_no_policy_breaks_a_cache(name: str) -> None:
    """Conversations, branches, signals, a pool that is always full: every invariant holds.

    And whatever is heard, all that is not held can be evicted.
    """
    clock, choose = _Clock(), random.Random(name)
    cache = PrefixCache(60, 4, make_policy(name, 60, clock), clock=clock)
    paths: dict[str, list[int]] = {}
    for _ in range(400):
        clock.now += choose.choice([0.0, 1.0, 50.0, 500.0])
        conversation = f"c{choose.randrange(12)}"
        if choose.random() < 0.5:
            cache.observe(conversation, choose.choice(list(Signal)[3:]))
            continue
        path = paths.get(conversation, [7] * 9)
        start = choose.randrange(len(path) + 1) if choose.random() < 0.2 else len(path)
        if start < len(path):
            cache.supersede(path, start, conversation)
        path = (path[:start] + [choose.randrange(1000) for _ in range(choose.randrange(1, 30))])[
            :200
        ]
        allocation = cache.allocate(np.array(path, np.int32), conversation=conversation)
        assert allocation is not None, "nothing is held, so there is room"
        cache.observe(conversation, Signal.STARTED)
        allocation.copies.clear()
        cache.commit(allocation, path)
        cache.release(allocation)
        cache.observe(conversation, Signal.FINISHED)
        cache.check()
        paths[conversation] = path
    assert cache.num_free_pages + cache.num_evictable_pages == 60
    whole = cache.allocate(range(10_000, 10_240))
    assert whole is not None
    assert cache.num_cached_tokens == 0
