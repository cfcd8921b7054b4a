"""Our cache as an arm: what it finds, what it tells the policy, what it measures."""

from __future__ import annotations

import pytest

from radixchat.bench.arm import common_units, computed_path
from radixchat.bench.ours import EvictionTime, LastPaths, OurCache
from radixchat.bench.reference_lru import ReferenceLru
from radixchat.bench.trace_item import TraceSignal
from radixchat.radix.use import Signal
from radixchat.tests.bench.traffic import ask, chats, serve_all

ALPHA, BETA, GAMMA = [*range(10, 20)], [*range(30, 40)], [*range(50, 60)]


@pytest.mark.parametrize("policy", ["lru", "slru", "tlru", "chat"])
@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_with_ample_room_it_is_the_longest_common_prefix(policy: str, page_size: int) -> None:
    """Exact to the unit, at any page size, under any policy; every invariant holds."""
    arm = OurCache(2000, page_size, policy)
    computed: list[tuple[bytes, bytes]] = []
    for request in chats(seed=1, num_requests=120):
        prompt = request.prompt.tobytes()
        known = (common_units(path, prompt) for name, path in computed if name == request.namespace)
        assert arm.serve(request) == min(max(known, default=0), len(request.prompt) - 1)
        computed.append((request.namespace, computed_path(request).tobytes()))
    arm.cache.check()
    assert arm.evicted_units == 0


@pytest.mark.parametrize("policy", ["lru", "slru", "tlru", "chat"])
def test_a_small_pool_evicts_pages_and_holds_none(policy: str) -> None:
    """It evicts whole pages, and between requests holds none."""
    arm = OurCache(30, 4, policy)
    for request in chats(seed=2, num_requests=200):
        arm.serve(request)
        assert arm.cache.num_free_pages + arm.cache.num_evictable_pages == 30
    arm.cache.check()
    assert arm.evicted_units > 0
    assert arm.evicted_units % 4 == 0


def test_it_decides_as_the_reference_does() -> None:
    """Pages of one unit, lru: the same found and the same number lost, request by request."""
    arm, reference = OurCache(100, 1, "lru"), ReferenceLru(100)
    for request in chats(seed=3, num_requests=400):
        assert arm.serve(request) == reference.serve(request)
        assert arm.evicted_units == reference.num_evicted
        assert arm.num_cached_units == len(reference)


def test_a_left_branch_goes_first() -> None:
    """Under `chat`: what an edit has left is evicted before an older conversation's path."""
    arm = OurCache(24, 1, "chat")
    arm.serve(ask(BETA, conversation="b"))
    arm.serve(ask(ALPHA, conversation="a"))
    arm.serve(ask([*ALPHA[:4], 1, 2, 3, 4], conversation="a", superseded=4))
    arm.serve(ask(range(90, 96), conversation="c"))
    assert arm.evicted_units == 6
    assert arm.cache.match(ALPHA).length == 4
    assert arm.cache.match(BETA).length == 10


def test_a_closed_conversation_goes_first() -> None:
    """Under `chat`: a signal reaches the policy."""
    arm = OurCache(24, 1, "chat")
    arm.serve(ask(ALPHA, conversation="a"))
    arm.serve(ask(BETA, conversation="b"))
    arm.signal(TraceSignal(1.0, "b", Signal.CLOSED))
    arm.serve(ask(GAMMA, conversation="c"))
    assert arm.cache.match(ALPHA).length == 10
    assert arm.cache.match(BETA).length == 4


def test_the_oldest_goes_first_otherwise() -> None:
    """The control of both: without a signal it is the conversation used longest ago."""
    arm = OurCache(24, 1, "chat")
    arm.serve(ask(ALPHA, conversation="a"))
    arm.serve(ask(BETA, conversation="b"))
    arm.serve(ask(GAMMA, conversation="c"))
    assert arm.cache.match(ALPHA).length == 4
    assert arm.cache.match(BETA).length == 10


def test_last_paths_are_bounded() -> None:
    """Beyond the limit the conversation silent longest is forgotten; a closed one at once."""
    paths = LastPaths(25)
    for name in ("a", "b", "a", "c"):
        paths.keep(name, b"", ask(ALPHA).prompt)
    assert paths.get("b") is None
    assert paths.get("a") is not None
    assert paths.get("c") is not None
    paths.forget("a")
    assert paths.get("a") is None
    paths.keep("d", b"", ask(range(26)).prompt)
    assert [paths.get(name) for name in ("c", "d")] == [None, None]


def test_eviction_time_is_the_excess() -> None:
    """Two calls evicted 5 pages in 70 ns, where 10 is the median without: 10 ns a page."""
    times = EvictionTime()
    for elapsed, pages in ((9, 0), (10, 0), (500, 0), (30, 2), (40, 3)):
        times.add(elapsed, pages)
    assert times.num_pages == 5
    assert times.total_ns() == 50


def test_eviction_time_is_never_negative() -> None:
    """Calls that evicted and were faster all the same."""
    times = EvictionTime()
    for elapsed, pages in ((100, 0), (30, 2)):
        times.add(elapsed, pages)
    assert times.total_ns() == 0


def test_what_has_not_happened_has_no_time() -> None:
    """None instead of 0, until there is something to tell."""
    arm = OurCache(20, 1, "lru")
    assert (arm.us_per_match, arm.us_per_insert, arm.us_per_evicted_page) == (None, None, None)
    assert arm.index_bytes_per_unit() is None
    serve_all(arm, [ALPHA, BETA])
    assert arm.us_per_match is not None
    assert arm.us_per_match > 0
    assert arm.us_per_insert is not None
    assert arm.us_per_insert > 0
    assert arm.us_per_evicted_page is None
    serve_all(arm, [GAMMA])
    assert arm.us_per_evicted_page is not None


def test_memory_of_the_index() -> None:
    """Long paths: token, page number and reference count take 4 bytes each, the rest is little."""
    arm = OurCache(40_000, 1, "lru")
    serve_all(arm, [range(start, start + 2000) for start in range(0, 40_000, 2000)])
    assert arm.num_cached_units == 40_000
    measured = arm.index_bytes_per_unit()
    assert measured is not None
    assert 12 <= measured < 14


def test_memory_does_not_depend_on_what_was_evicted() -> None:
    """After ten times the capacity came and went, the index is as large as after the first."""
    arm = OurCache(4000, 1, "lru")
    measured = []
    for _ in range(2):
        serve_all(arm, [range(start, start + 200) for start in range(0, 40_000, 200)])
        serve_all(arm, [range(start, start + 2000) for start in (100_000, 200_000)])
        assert arm.num_cached_units == 4000
        measured.append(arm.index_bytes_per_unit() or 0)
    assert measured[0] == pytest.approx(measured[1], rel=0.05)
    assert measured[1] < 16
