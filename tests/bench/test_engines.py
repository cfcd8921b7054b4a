"""What holds for every arm: bounds, sizes, namespaces; and the registry."""

from __future__ import annotations

import pytest

from radixchat.bench.arm import CacheArm, common_units, computed_path
from radixchat.bench.engines import ENGINE_NAMES, make_arm
from radixchat.bench.llamacpp_slots import LlamaCppSlots
from radixchat.bench.trace_item import TraceSignal
from radixchat.radix.use import Signal
from radixchat.tests.bench.traffic import ask, chats

engines = pytest.mark.parametrize("engine", ENGINE_NAMES)


@engines
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("capacity", [70, 120, 100_000])
def test_never_above_the_infinite_bound(engine: str, page_size: int, capacity: int) -> None:
    """No prompt finds more than the longest prefix computed before, nor its last unit."""
    arm = make_arm(engine, capacity_units=capacity, page_size=page_size)
    computed: list[tuple[bytes, bytes]] = []
    total = 0
    for request in chats(seed=1, num_requests=150):
        found = arm.serve(request)
        prompt = request.prompt.tobytes()
        bound = max(
            (common_units(path, prompt) for name, path in computed if name == request.namespace),
            default=0,
        )
        assert 0 <= found <= min(bound, len(request.prompt) - 1)
        assert arm.num_cached_units <= capacity
        total += found
        computed.append((request.namespace, computed_path(request).tobytes()))
    assert total > 0, "the traffic has something to find"


@pytest.mark.parametrize("engine", [name for name in ENGINE_NAMES if name != "llamacpp"])
def test_ample_room_loses_nothing(engine: str) -> None:
    """In a cache larger than all that was computed, a prompt that was sent before is found.

    But not by llama.cpp, whose slots forget what they are cut back from.
    """
    arm = make_arm(engine, capacity_units=100_000, page_size=1)
    requests = chats(seed=2, num_requests=50)
    for request in requests:
        arm.serve(request)
    again = [arm.serve(request) for request in requests]
    assert again == [len(request.prompt) - 1 for request in requests]
    assert arm.evicted_units == 0


@engines
def test_too_little_room(engine: str) -> None:
    """Where no request fits, nothing is found, held or lost, and all are counted."""
    arm = make_arm(engine, capacity_units=4, page_size=4)
    for _ in range(3):
        assert arm.serve(ask(range(9))) == 0
    assert (arm.too_long, arm.num_cached_units, arm.evicted_units) == (3, 0, 0)


@engines
def test_what_does_not_fit_leaves_the_cache_alone(engine: str) -> None:
    """A request too long in between changes nothing for the others."""
    arm = make_arm(engine, capacity_units=400, page_size=4)
    arm.serve(ask(range(33)))
    before = arm.num_cached_units
    assert arm.serve(ask(range(500))) == 0
    assert arm.num_cached_units == before
    assert arm.serve(ask(range(33))) == 32


@engines
def test_namespaces_never_share(engine: str) -> None:
    """The same prompt in another namespace finds nothing; in its own it is found."""
    arm = make_arm(engine, capacity_units=1000, page_size=4)
    prompt = range(41)
    assert [arm.serve(ask(prompt, namespace=name)) for name in (b"a", b"b", b"")] == [0, 0, 0]
    assert [arm.serve(ask(prompt, namespace=name)) for name in (b"a", b"b", b"")] == [40, 40, 40]


@engines
def test_serving_is_deterministic(engine: str) -> None:
    """The same traffic finds the same twice, signals or not."""
    found: list[list[int]] = []
    for heard in (False, True):
        arm = make_arm(engine, capacity_units=90, page_size=2)
        found.append([])
        for request in chats(seed=4, num_requests=100):
            if heard:
                arm.signal(TraceSignal(0.0, "chat 1", Signal.TYPING))
            found[-1].append(arm.serve(request))
    assert found[0] == found[1]


def test_slots_and_host_list_keep_their_limits() -> None:
    """After every request: each slot within its share, the host list within its limit."""
    arm = LlamaCppSlots(280, 4, host_units=100)
    for request in chats(seed=6, num_requests=300):
        arm.serve(request)
        assert arm.num_cached_units <= 280
        assert arm.num_host_units <= 100
    assert arm.num_host_units > 0


@engines
def test_every_arm_says_what_it_is(engine: str) -> None:
    """Its name, and what its simulation leaves out, which of the real one is nothing."""
    arm: CacheArm = make_arm(engine, capacity_units=64, page_size=16)
    assert arm.name == engine
    assert bool(arm.ignores) == (engine != "ours")
    assert arm.page_size == (16 if engine in ("ours", "vllm") else 1)


@pytest.mark.parametrize(
    ("engine", "capacity", "page_size", "policy", "message"),
    [
        ("vllm2", 64, 16, "lru", "'vllm2'; choose one of ours, vllm"),
        ("vllm", 15, 16, "lru", "capacity of 15 units holds no page of 16"),
        ("sglang", 0, 1, "lru", "capacity of 0 units"),
        ("tgi", 64, 0, "lru", "page_size is 0"),
        ("ours", 64, 16, "mru", "mru"),
    ],
)
def test_what_cannot_be_made(
    engine: str, capacity: int, page_size: int, policy: str, message: str
) -> None:
    """It is refused, with the value that was given."""
    with pytest.raises(ValueError, match=message):
        make_arm(engine, capacity_units=capacity, page_size=page_size, policy=policy)
