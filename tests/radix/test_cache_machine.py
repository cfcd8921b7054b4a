"""Tests of the whole index against a model, by a state machine (`machine.py`).

After every rule: the cache's own `check()`; the tree equals the model's set of prefixes; every
slot that a request or the tree could read holds the K/V of exactly its prefix; what a request
found is the longest common prefix with everything committed; a refusal changed nothing and was
necessary; an eviction took exactly the pages that were missing, the least recently used.

It finds each of these seeded bugs, which `structure_mutants.py` keeps runnable (`mutants.py`):

 1. a split in mid-page forgets the second reference on the page
 2. duplicates are freed before the page table is rewritten
 3. the source of a pending copy is not locked
 4. a locked leaf is put into the eviction order
 5. the match is not capped at n - 1
 6. commit replaces a partly covered page
 7. a node is merged while another request holds it
 8. eviction trims one page too many
 9. release keeps the private pages
10. the copy of a partly matched page is forgotten
11. where several nodes touch one page, the page of the shallower one is used
12. a stale heap entry counts, so a recently used leaf goes first

and of the others in that list; `use_mutants.py` has those of what is known of uses.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from radixchat.radix.cache import PrefixCache
from radixchat.radix.policies import POLICY_NAMES
from radixchat.tests.radix.machine import EXAMPLES_PER_SIZE, PAGE_SIZES, CacheMachine
from radixchat.tests.radix.simulation import Simulation

# Hypothesis makes a failing example smaller for up to five minutes before it shows it.
pytestmark = pytest.mark.timeout(900)


def _machine(policy: str, page_sizes: tuple[int, ...] = PAGE_SIZES) -> type[CacheMachine]:
    return type("PolicyMachine", (CacheMachine,), {"policy": policy, "page_sizes": page_sizes})


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_cache_equals_model(page_size: int) -> None:
    """Any sequence of chat operations leaves the cache equal to a set of prefixes."""
    quick = settings(max_examples=EXAMPLES_PER_SIZE, stateful_step_count=50, deadline=None)
    run_state_machine_as_test(_machine("lru", (page_size,)), settings=quick)


@pytest.mark.parametrize("policy", [name for name in POLICY_NAMES if name != "lru"])
def test_cache_equals_model_with_policy(policy: str) -> None:
    """The same whatever goes first."""
    quick = settings(max_examples=15, stateful_step_count=50, deadline=None)
    run_state_machine_as_test(_machine(policy), settings=quick)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_cache_equals_model_for_longer(policy: str) -> None:
    """The same, with more and longer sequences."""
    examples = 400 if policy == "lru" else 150
    thorough = settings(max_examples=examples, stateful_step_count=80, deadline=None)
    run_state_machine_as_test(_machine(policy), settings=thorough)


@pytest.mark.parametrize("page_size", [3, 16])
def test_drained_after_random_operations(page_size: int) -> None:
    """After 3,000 random operations, drained and flushed, nothing at all is left."""
    draw = random.Random(page_size)
    simulation = Simulation(PrefixCache(24, page_size))
    simulation.seen.append((b"", [0]))
    for _ in range(3_000):
        operation = draw.random()
        if operation < 0.3 or not simulation.running:
            namespace, trunk = draw.choice(simulation.seen[-12:])
            kept = draw.choice([len(trunk), len(trunk) - 1, draw.randint(0, len(trunk))])
            tail = draw.choices([0, 1], k=draw.randint(1, 3 * page_size))
            simulation.allocate((trunk[:kept] + tail)[: 20 * page_size], namespace)
            continue
        request = draw.choice(simulation.running)
        if operation < 0.6:
            simulation.compute(request, draw.randint(1, 3 * page_size))
        elif operation < 0.7:
            simulation.extend(request, draw.choices([0, 1], k=draw.randint(1, page_size)))
        elif operation < 0.85:
            known = request.allocation.num_committed
            simulation.commit(request, draw.randint(known, request.num_computed))
        elif operation < 0.99:
            simulation.release(request)
        else:
            simulation.flush()
    simulation.drain()
