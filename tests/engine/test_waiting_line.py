"""Whose turn it is: the longest prefix, with a bound, and in turn between tenants."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.waiting_line import LOOK_AHEAD, WaitingLine

MAX_TOKENS = 1000


def first_token(tokens: NDArray[np.int32], namespace: bytes) -> int:
    """A cache in which a prompt's first token says how much of it is there."""
    return int(tokens[0])


def line(max_overtaken: int | None = 4, *, by_prefix: bool = True) -> WaitingLine:
    return WaitingLine(first_token, MAX_TOKENS, max_overtaken, by_prefix=by_prefix)


def ask(id_: int, matched: int, tenant: bytes = b"", priority: int = 0) -> Request:
    params = SamplingParams(temperature=0)
    return Request(id_, [matched, 1], params, namespace=tenant, priority=priority)


def never(request: Request) -> bool:
    return False


def serve(waiting: WaitingLine, count: int | None = None) -> list[int]:
    """Admit until nobody waits, or `count` of them."""
    order: list[int] = []
    while len(waiting) and (count is None or len(order) < count):
        request = waiting.next(len(order), never)
        assert request is not None
        waiting.admit(request)
        request.num_cached = 0
        order.append(request.id)
    return order


def test_the_longest_prefix_goes_first() -> None:
    """Of equal ones the one that came first."""
    waiting = line(100)
    for id_, matched in enumerate([3, 900, 3, 40]):
        waiting.add(ask(id_, matched))
    assert serve(waiting) == [1, 3, 0, 2]


def test_in_order_of_arrival() -> None:
    """First come, first served does not look at the cache."""
    waiting = line(by_prefix=False)
    for id_, matched in enumerate([3, 900, 40]):
        waiting.add(ask(id_, matched))
    assert serve(waiting) == [0, 1, 2]


@pytest.mark.parametrize("bound", [1, 2, 7, 32])
def test_nobody_is_overtaken_more_often_than_declared(bound: int) -> None:
    """A stream of better prefixes passes the first of the line so often, then it is its turn."""
    waiting = line(bound)
    waiting.add(ask(0, 0))
    passed = 0
    while True:
        waiting.add(ask(1 + passed, MAX_TOKENS - 1))
        if serve(waiting, 1) == [0]:
            break
        passed += 1
    assert passed == bound


def test_without_ageing_a_stream_of_hits_starves() -> None:
    """The control: nothing ever lets the first of the line go."""
    waiting = line(None)
    waiting.add(ask(0, 0))
    for id_ in range(1, 500):
        waiting.add(ask(id_, 10))
        assert serve(waiting, 1) == [id_]


def test_random_arrivals_keep_the_bound() -> None:
    """Whatever comes, each request's count of later ones that went first stays within it."""
    reached = 0
    for seed in range(50):
        rng = random.Random(seed)
        bound = rng.choice([1, 3, 8])
        waiting, overtaken, alive = line(bound), dict[int, int](), list[int]()
        for id_ in range(200):
            waiting.add(ask(id_, rng.randrange(MAX_TOKENS)))
            alive.append(id_)
            for admitted in serve(waiting, rng.randrange(3)):
                alive.remove(admitted)
                for earlier in alive:
                    overtaken[earlier] = overtaken.get(earlier, 0) + (earlier < admitted)
        assert max(overtaken.values()) <= bound
        reached += max(overtaken.values()) == bound
    assert reached > 10


def test_tenants_take_turns_whatever_they_ask() -> None:
    """The order between tenants is the same for any content: it tells nothing."""
    rng = random.Random(3)
    orders = set()
    for _ in range(20):
        waiting = line()
        tenants = dict[int, bytes]()
        for id_ in range(30):
            tenants[id_] = [b"a", b"b", b"b", b"c"][id_ % 4]
            waiting.add(ask(id_, rng.randrange(MAX_TOKENS), tenants[id_]))
        orders.add(tuple(tenants[id_] for id_ in serve(waiting)))
    assert len(orders) == 1
    (order,) = orders
    assert order[:6] == (b"a", b"b", b"c", b"a", b"b", b"c")


def test_higher_priorities_go_first() -> None:
    """Whatever the prefixes, and whoever's turn it is."""
    waiting = line()
    for id_, priority in enumerate([0, 2, -1, 2, 0]):
        waiting.add(ask(id_, 100 * (3 - priority), b"ab"[id_ % 2 :], priority))
    assert sorted(serve(waiting, 2)) == [1, 3]
    assert sorted(serve(waiting, 2)) == [0, 4]
    assert serve(waiting) == [2]


def test_who_was_preempted_is_next() -> None:
    """A request that gave its pages up goes before those that never had any; in its order."""
    waiting = line()
    waiting.add(ask(0, 900))
    for id_ in (5, 6):
        preempted = ask(id_, 0)
        preempted.num_cached = 0
        waiting.put_back(preempted)
    assert serve(waiting) == [5, 6, 0]


def test_who_had_better_wait_is_passed() -> None:
    """One that is skipped keeps its place, and counts as overtaken, up to the bound."""
    waiting = line(2)
    skipped = ask(0, 999)
    waiting.add(skipped)
    for id_ in (1, 2, 3):
        waiting.add(ask(id_, 5))
    order = []
    for state in range(4):
        request = waiting.next(state, lambda r: r is skipped)
        assert request is not None
        waiting.admit(request)
        order.append(request.id)
    assert order == [1, 2, 0, 3]


def test_only_the_first_of_a_line_are_compared() -> None:
    """Looking up prefixes is bounded; whoever is behind gets there in time."""
    waiting = line()
    for id_ in range(LOOK_AHEAD):
        waiting.add(ask(id_, 1))
    waiting.add(ask(LOOK_AHEAD, 999))
    assert serve(waiting, 2) == [0, LOOK_AHEAD]


def test_prefixes_are_looked_up_again_only_when_they_may_have_changed() -> None:
    """A request that waits for pages costs no lookup a step."""
    looked = []

    def match(tokens: NDArray[np.int32], namespace: bytes) -> int:
        looked.append(int(tokens[0]))
        return 0

    waiting = WaitingLine(match, MAX_TOKENS, 4, by_prefix=True)
    for id_ in range(3):
        waiting.add(ask(id_, id_))
    for _ in range(5):
        waiting.next(1, never)
    assert looked == [0, 1, 2]
    waiting.next(2, never)
    assert looked == [0, 1, 2] * 2


def test_removing_leaves_the_others() -> None:
    """A request that is cancelled while it waits; the empty line admits nobody."""
    waiting = line()
    requests = [ask(i, i, b"ab"[i % 2 :], i % 2) for i in range(4)]
    for request in requests:
        waiting.add(request)
    waiting.remove(requests[1])
    assert [r.id for r in waiting] == [3, 0, 2]
    for request in (requests[0], requests[2], requests[3]):
        waiting.remove(request)
    assert len(waiting) == 0
    assert list(waiting) == []
    assert waiting.next(0, never) is None
