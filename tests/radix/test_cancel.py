"""Cancelling at every step: after each chunk of each prompt, at each page size."""

from __future__ import annotations

import pytest

from radixchat.radix.cache import PrefixCache
from radixchat.tests.radix.simulation import Simulation

TRUNK = [position % 3 for position in range(37)]


@pytest.mark.parametrize("page_size", [1, 2, 8, 16])
@pytest.mark.parametrize("chunk", [1, 3, 8, 16])
def test_cancelled_after_each_chunk(page_size: int, chunk: int) -> None:
    """What was committed is found by the next request, to the token; nothing else stays."""
    for length in range(len(TRUNK) - page_size, len(TRUNK) + 1):
        for cancelled_at in range(0, length + chunk, chunk):
            simulation = Simulation(PrefixCache(2 * -(-len(TRUNK) // page_size), page_size))
            request = simulation.allocate(TRUNK[:length], conversation="one")
            assert request is not None
            for _ in range(0, min(cancelled_at, length), chunk):
                simulation.compute(request, chunk)
                simulation.commit(request, request.num_computed)
            committed = request.num_computed
            simulation.release(request)
            again = simulation.allocate([*TRUNK[:length], 5], conversation="one")
            assert again is not None
            assert again.allocation.num_cached == committed == min(cancelled_at, length)
            simulation.drain()


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_cancelled_in_the_middle_of_another(page_size: int) -> None:
    """A request that goes leaves the one that shares its pages whole, whenever it goes."""
    for cut in range(0, len(TRUNK), 3):
        for cancelled_at in range(0, len(TRUNK), 5):
            simulation = Simulation(PrefixCache(200 // page_size, page_size))
            first = simulation.allocate(TRUNK)
            second = simulation.allocate([*TRUNK[:cut], 7, 8, 9])
            assert first is not None
            assert second is not None
            simulation.compute(first, cancelled_at)
            simulation.commit(first, first.num_computed)
            simulation.compute(second, 5)
            simulation.commit(second, second.num_computed)
            simulation.release(first)
            simulation.compute(second, len(second.tokens))
            simulation.commit(second, len(second.tokens))
            simulation.drain()
