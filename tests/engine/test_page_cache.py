"""Which cache a plan makes, and that tenants share what was declared public, end to end."""

from __future__ import annotations

import random

import pytest

from radixchat.engine.config import EngineConfig
from radixchat.engine.errors import ConfigError
from radixchat.engine.request import Request
from radixchat.engine.weights import Checkpoint
from radixchat.radix.policies import POLICY_NAMES
from radixchat.tests.engine.driver import GREEDY, answer, make_engine, run

SYSTEM = tuple(random.Random(1).choices(range(250), k=41))  # five pages of 8, and a token


def test_unknown_eviction_is_refused() -> None:
    """A policy that does not exist is refused with those that do."""
    with pytest.raises(ConfigError, match=r"eviction is 'fifo'; it must be one of lru, slru"):
        EngineConfig(eviction="fifo")


@pytest.mark.parametrize("eviction", POLICY_NAMES)
def test_answers_do_not_depend_on_the_policy(tiny: Checkpoint, eviction: str) -> None:
    """A pool that evicts all the time answers as one without a cache."""
    engine = make_engine(tiny, eviction=eviction, pool_tokens=160, page_size=8)
    naive = make_engine(tiny, prefix_cache=False)
    cached = 0
    for turn in range(9):
        prompt = random.Random(turn % 3).choices(range(250), k=60 + turn)
        request = Request(turn, list(prompt), GREEDY, conversation=f"c{turn % 3}")
        outcome = run(engine, [request])[turn]
        assert outcome.tokens == answer(naive, prompt).tokens
        assert outcome.usage is not None
        cached += outcome.usage.cached_tokens
    assert engine.cache.num_free_pages < engine.cache.num_pages // 2, "the pool was never full"
    assert 0 < cached < 6 * 60, "all or nothing was found: nothing went, or nothing was used"
    assert f"{eviction} eviction" in str(engine.plan)


def test_public_prefix_is_shared_and_nothing_else(tiny: Checkpoint) -> None:
    """Another tenant's equal prompt finds the public pages only; the answers are the same."""
    engine = make_engine(tiny, public_prefixes=(SYSTEM,), page_size=8)
    prompt = [*SYSTEM, *random.Random(2).choices(range(250), k=30)]
    expected = answer(make_engine(tiny, prefix_cache=False), prompt).tokens
    cached = []
    for index, namespace in enumerate((b"a", b"b", b"a", b"b")):
        outcome = run(engine, [Request(index, list(prompt), GREEDY, namespace=namespace)])[index]
        assert outcome.tokens == expected
        assert outcome.usage is not None
        cached.append(outcome.usage.cached_tokens)
    assert cached == [0, 40, len(prompt) - 1, len(prompt) - 1]


def test_tenants_of_a_public_prefix_side_by_side(tiny: Checkpoint) -> None:
    """Several tenants in one small pool, preempted and resumed, are answered as if alone."""
    engine = make_engine(
        tiny, public_prefixes=(SYSTEM,), page_size=8, pool_tokens=184, max_step_tokens=32
    )
    naive = make_engine(tiny, prefix_cache=False)
    prompts = [[*SYSTEM, *random.Random(i).choices(range(250), k=30)] for i in range(6)]
    requests = [
        Request(i, list(p), GREEDY, namespace=b"%d" % (i % 3)) for i, p in enumerate(prompts)
    ]
    outcomes = run(engine, requests)
    for index, prompt in enumerate(prompts):
        assert outcomes[index].tokens == answer(naive, prompt).tokens
    cached = [outcome.usage.cached_tokens for outcome in outcomes.values() if outcome.usage]
    assert sum(count >= 40 for count in cached) >= 3, "the public prefix was hardly used"
    assert engine.scheduler.stats.preemptions > 0
