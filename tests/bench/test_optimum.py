"""The optimum against exhaustive search over everything that a cache could keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations, pairwise

import pytest

from radixchat.bench.optimum import OfflineOptimum
from radixchat.bench.reference_lru import ReferenceLru
from radixchat.bench.trace_item import TraceRequest
from radixchat.tests.bench.chat_traffic import ChatTraffic, request

Prefix = tuple[bytes, tuple[int, ...]]


def total(optimum: OfflineOptimum, capacity: int) -> int:
    return int(optimum.run(capacity).cached_units.sum())


def attained(optimum: OfflineOptimum, capacity: int) -> int:
    return int(optimum.attained(capacity).cached_units.sum())


def prefixes(item: TraceRequest) -> list[Prefix]:
    path = tuple(item.prompt.tolist() + item.output.tolist()[:-1])
    return [(item.namespace, path[: length + 1]) for length in range(len(path))]


def subsets(units: Iterable[Prefix], largest: int) -> Iterator[frozenset[Prefix]]:
    pool = list(units)
    sizes = range(min(len(pool), largest) + 1)
    return map(frozenset, chain.from_iterable(combinations(pool, size) for size in sizes))


def is_closed(kept: frozenset[Prefix]) -> bool:
    """Whether every unit's parent is there, as in a tree."""
    return all(len(path) == 1 or (name, path[:-1]) in kept for name, path in kept)


def exhaustive(items: list[TraceRequest], capacity: int, tree: bool) -> int:
    """The most units found by any choice of what to keep; `tree`: only prefix-closed choices."""
    best: dict[frozenset[Prefix], int] = {frozenset(): 0}  # what is kept -> found so far
    for item in items:
        path = prefixes(item)
        if len(path) > capacity:
            continue
        findable = set(path[: len(item.prompt) - 1])
        after: dict[frozenset[Prefix], int] = {}
        for cached, found in best.items():
            found += len(findable & cached)
            for others in subsets(cached - set(path), capacity - len(path)):
                kept = others | frozenset(path)
                if not tree or is_closed(kept):
                    after[kept] = max(after.get(kept, 0), found)
        best = after
    return max(best.values())


def tiny(seed: int) -> list[TraceRequest]:
    return ChatTraffic(seed, values=2, longest=2, system=2).requests(6)


def with_unique_ends(items: list[TraceRequest]) -> list[TraceRequest]:
    """The same prompts, each ended by a unit of its own, without outputs."""
    return [
        request([*item.prompt.tolist(), 1000 + index], namespace=item.namespace)
        for index, item in enumerate(items)
    ]


def test_keeps_what_comes_back_sooner() -> None:
    """LRU drops what is needed next and finds nothing; the optimum keeps it."""
    items = [request([value, value, value]) for value in (1, 2, 3, 1, 2, 3, 1)]
    lru = ReferenceLru(6)
    assert sum(map(lru.serve, items)) == 0
    assert total(OfflineOptimum(items), 6) == 6
    assert attained(OfflineOptimum(items), 6) == 6


def test_a_request_needs_room_for_its_whole_path() -> None:
    """Its own units are in the cache together, so what is kept beside them is the rest."""
    items = [request([1, 2, 3]), request([7, 8, 9], [5, 5]), request([1, 2, 3])]
    assert [total(OfflineOptimum(items), capacity) for capacity in (4, 5, 6, 7)] == [0, 1, 2, 2]
    assert OfflineOptimum(items).run(5).evicted_units == 4
    assert OfflineOptimum(items).run(3).cached_units.tolist() == [0, 0, 2], "one is too large"


def test_a_use_that_finds_nothing_is_worth_nothing() -> None:
    """A prompt's last unit is computed each time: a parent may be worth less than its child.

    So the bound is above what a tree can do here: while 8 8 is served it keeps 1 and 3, not 2.
    """
    items = [request([1, 2, 3, 4]), request([8, 8]), request([1, 2]), request([1, 2, 3, 5])]
    optimum = OfflineOptimum(items)
    assert total(optimum, 4) == exhaustive(items, 4, tree=False) == 4
    assert attained(optimum, 4) == exhaustive(items, 4, tree=True) == 3


def test_what_is_in_use_is_no_victim() -> None:
    """Not even a prompt's last unit, which nobody will find: dropping it would make no room."""
    items = [request([1, 2]), request([7, 7, 7]), request([1, 2], [9, 9]), request([7, 7, 7, 8])]
    assert total(OfflineOptimum(items), 5) == exhaustive(items, 5, tree=False) == 3


def test_a_leaf_that_got_a_child_is_no_leaf() -> None:
    """However worthless the parent: `attained` keeps it while its child is there."""
    items = [
        request([1, 2]),
        request([1, 2], [3, 4]),
        request([8, 8]),
        request([1, 2]),
        request([1, 2, 3, 9]),
    ]
    assert attained(OfflineOptimum(items), 4) == exhaustive(items, 4, tree=True) == 4
    assert total(OfflineOptimum(items), 4) == exhaustive(items, 4, tree=False) == 5


def test_an_empty_trace_and_a_capacity_of_nothing() -> None:
    """Nothing is found of nothing; a capacity below 1 is refused with its value."""
    assert OfflineOptimum([]).run(1).cached_units.tolist() == []
    with pytest.raises(ValueError, match="capacity is 0"):
        OfflineOptimum([]).run(0)


@pytest.mark.parametrize("seed", range(30))
def test_equals_exhaustive_search(seed: int) -> None:
    """The bound is the best of all choices; the best of a tree lies between it and `attained`."""
    items = tiny(seed)
    optimum = OfflineOptimum(items)
    longest = max(len(prefixes(item)) for item in items)
    for capacity in (longest - 1, longest + 1):
        assert total(optimum, capacity) == exhaustive(items, capacity, tree=False)
        best = exhaustive(items, capacity, tree=True)
        assert attained(optimum, capacity) <= best <= total(optimum, capacity)


@pytest.mark.parametrize("seed", range(30))
def test_is_leaf_first_by_itself_where_every_use_finds(seed: int) -> None:
    """Then a tree attains it: bound, schedule and exhaustive search over trees are equal."""
    items = with_unique_ends(tiny(seed))
    optimum = OfflineOptimum(items)
    longest = max(len(prefixes(item)) for item in items)
    for capacity in (longest, longest + 2):
        best = exhaustive(items, capacity, tree=True)
        assert attained(optimum, capacity) == best == total(optimum, capacity)


@pytest.mark.parametrize("seed", range(10))
def test_lies_between_the_reference_and_the_infinite_cache(seed: int) -> None:
    """It finds at least as much as LRU, more with more room, and all that is there with enough."""
    items = ChatTraffic(seed).requests(150)
    optimum = OfflineOptimum(items)
    infinite = int(optimum.infinite.cached_units.sum())
    capacities = (10, 20, 40, 80, 10_000)
    for capacity in capacities:
        lru = ReferenceLru(capacity)
        assert sum(map(lru.serve, items)) <= attained(optimum, capacity) <= infinite
    totals = [total(optimum, capacity) for capacity in capacities]
    assert totals[-1] == infinite
    assert totals[0] < infinite
    assert all(less <= more for less, more in pairwise(totals))


def test_counts_what_an_infinite_cache_holds() -> None:
    """Every unit once: shared ones are not counted twice, an output's last is not there."""
    items = [request([1, 2, 3, 4]), request([1, 2, 3, 5], [6, 7]), request([1, 2, 3, 4])]
    assert OfflineOptimum(items).distinct_units == 6
