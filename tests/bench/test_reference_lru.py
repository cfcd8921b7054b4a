"""The reference LRU against worked examples and a simulation that is simpler still."""

from __future__ import annotations

import pytest

from radixchat.bench.reference_lru import ReferenceLru
from radixchat.bench.trace_item import TraceRequest
from radixchat.tests.bench.chat_traffic import ChatTraffic, request

Prefix = tuple[bytes, tuple[int, ...]]


def evicted(cache: ReferenceLru) -> list[Prefix]:
    return [unit.prefix() for unit in cache.evicted]


class SortedPrefixes:
    """Every cached prefix with the time of its last use, sorted anew for each eviction."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used: dict[Prefix, int] = {}
        self.now = 0

    def serve(self, request: TraceRequest) -> tuple[int, list[Prefix]]:
        """Found units, and evicted prefixes in order."""
        path = tuple(request.prompt.tolist() + request.output.tolist()[:-1])
        if len(path) > self.capacity:
            return 0, []
        prefixes = [(request.namespace, path[: length + 1]) for length in range(len(path))]
        found = 0
        while found < len(request.prompt) - 1 and prefixes[found] in self.used:
            found += 1
        gone = []
        while len(self.used) + len(path) - found > self.capacity:
            candidates = sorted(set(self.used) - set(prefixes[:found]))
            victim = min(candidates, key=lambda prefix: (self.used[prefix], -len(prefix[1])))
            del self.used[victim]
            gone.append(victim)
        self.now += 1
        for prefix in prefixes:
            self.used[prefix] = self.now
        return found, gone


def test_finds_a_growing_conversation_but_never_the_last_unit() -> None:
    """A resent prompt is found up to its last unit, the next turn with the answer's KV."""
    cache = ReferenceLru(100)
    assert cache.serve(request([1, 2, 3], [4, 5, 6])) == 0
    assert len(cache) == 5
    assert cache.serve(request([1, 2, 3])) == 2
    assert cache.serve(request([1, 2, 3, 4, 5, 6, 7])) == 5
    assert cache.serve(request([1])) == 0


def test_evicts_the_least_recent_path_from_its_tip() -> None:
    """Exactly what is missing goes; what is found stays, however old it is."""
    cache = ReferenceLru(6)
    cache.serve(request([1, 2, 3]))
    cache.serve(request([7, 8]))
    cache.serve(request([5, 6]))
    assert evicted(cache) == [(b"", (1, 2, 3))]
    assert cache.serve(request([1, 2, 9])) == 2
    assert evicted(cache) == [(b"", (7, 8))]
    assert cache.serve(request([3, 3, 3], namespace=b"x")) == 0
    assert evicted(cache) == [(b"", (7,)), (b"", (5, 6)), (b"", (5,))]
    assert cache.num_evicted == 5


def test_duplicates_need_room_too() -> None:
    """The last unit and the answer are computed again, so the old ones may have to go."""
    cache = ReferenceLru(4)
    cache.serve(request([1, 2], [3, 4]))
    assert len(cache) == 3
    assert cache.serve(request([1, 2], [3, 4])) == 1
    assert evicted(cache) == [(b"", (1, 2, 3))]
    assert len(cache) == 3


def test_a_request_larger_than_the_cache_changes_nothing() -> None:
    """Also when only its answer is too much."""
    cache = ReferenceLru(3)
    cache.serve(request([1, 2]))
    assert cache.serve(request([1, 2, 3, 4])) == 0
    assert cache.serve(request([1, 2], [3, 4, 5])) == 0
    assert evicted(cache) == []
    assert cache.serve(request([1, 2, 3])) == 2


def test_namespaces_share_nothing() -> None:
    """The same prompt under another name is unknown."""
    cache = ReferenceLru(100)
    cache.serve(request([1, 2, 3], namespace=b"a"))
    assert cache.serve(request([1, 2, 3], namespace=b"b")) == 0
    assert cache.serve(request([1, 2, 3], namespace=b"a")) == 2


def test_a_capacity_of_nothing_is_refused() -> None:
    """With the value in the message."""
    with pytest.raises(ValueError, match="capacity is 0"):
        ReferenceLru(0)


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_sorted_prefixes(seed: int) -> None:
    """Found units and evicted prefixes, in order, request for request."""
    num_evicted = 0
    for capacity in (8, 20, 45):
        cache, naive = ReferenceLru(capacity), SortedPrefixes(capacity)
        for item in ChatTraffic(seed).requests(40):
            assert (cache.serve(item), evicted(cache)) == naive.serve(item)
            assert len(cache) == len(naive.used) <= capacity
        num_evicted += cache.num_evicted
    assert num_evicted > 0
