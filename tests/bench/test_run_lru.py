"""The LRU on runs is the reference LRU."""

from __future__ import annotations

import pytest

from radixchat.bench.oracles import OfflineOptimum, reference_lru
from radixchat.bench.path_tree import PathTree, Visits
from radixchat.bench.reference_lru import ReferenceLru
from radixchat.bench.run_lru import RunLru
from radixchat.bench.trace_item import TraceRequest
from radixchat.tests.bench.chat_traffic import ChatTraffic


def visits_of(items: list[TraceRequest]) -> Visits:
    tree = PathTree()
    for item in items:
        tree.add(item)
    return tree.freeze()


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_reference(seed: int) -> None:
    """Found and evicted units of every request, at any capacity."""
    items = ChatTraffic(seed, longest=6, system=10).requests(80)
    visits = visits_of(items)
    for capacity in (9, 16, 30, 60, 120):
        runs, units = RunLru(visits, capacity), ReferenceLru(capacity)
        for index, item in enumerate(items):
            assert runs.serve(index) == units.serve(item)
            assert runs.num_evicted == units.num_evicted
        assert units.num_evicted > 0


def test_the_oracles_of_a_trace_have_it() -> None:
    """`OfflineOptimum.lru` is `reference_lru`."""
    items = ChatTraffic(0).requests(80)
    ours, reference = OfflineOptimum(items).lru(30), reference_lru(items, 30)
    assert ours.cached_units.tolist() == reference.cached_units.tolist()
    assert ours.evicted_units == reference.evicted_units > 0


def test_a_capacity_of_nothing_is_refused() -> None:
    """With the value in the message."""
    with pytest.raises(ValueError, match="capacity is 0"):
        RunLru(visits_of([]), 0)
