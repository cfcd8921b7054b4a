"""How long one may wait while others fare better: a stream of hits, tenants, priorities."""

from __future__ import annotations

from typing import Any

import pytest

from radixchat.engine.engine import Engine
from radixchat.engine.request import Request
from radixchat.engine.sampling_params import SamplingParams
from radixchat.engine.weights import Checkpoint
from radixchat.tests.engine.driver import make_engine, prompt, run

SHORT = SamplingParams(temperature=0, max_tokens=2)
STREAM = 40


def overtaken(engine: Engine, patient: Request, rivals: list[Request]) -> int:
    """How many rivals overtake `patient`, which is submitted after the first and before the rest.

    The rest come one by one, so that there are always two of them waiting.
    """
    engine.submit(rivals[0])
    engine.step()
    engine.submit(patient, *rivals[1:3])
    coming = rivals[3:]
    while patient.num_cached is None:
        engine.step()
        while coming and engine.scheduler.num_waiting < 3:
            engine.submit(coming.pop(0))
    count = sum(rival.num_cached is not None for rival in rivals[1:])
    if coming:
        engine.submit(*coming)
    run(engine, [])
    return count


def stream_of_hits(tiny: Checkpoint, **settings: Any) -> int:
    """How many of a stream of the best possible hits overtake one that has none."""
    engine = make_engine(
        tiny, max_running=1, max_step_tokens=64, page_size=1, pool_tokens=64, **settings
    )
    trunk = prompt(60)
    run(engine, [Request(99, trunk.copy(), SHORT)])
    rivals = [Request(1 + i, [*trunk, i], SHORT) for i in range(STREAM)]
    return overtaken(engine, Request(0, prompt(60, seed=1), SHORT), rivals)


@pytest.mark.parametrize("limit", [1, 3, 8])
def test_a_stream_of_hits_is_waited_for_so_long(tiny: Checkpoint, limit: int) -> None:
    """Hits of nearly all there is room for go first `max_overtaken` times, and no more."""
    assert stream_of_hits(tiny, max_overtaken=limit) == limit


def test_without_ageing_it_starves(tiny: Checkpoint) -> None:
    """The control: longest prefix first alone lets the whole stream pass."""
    assert stream_of_hits(tiny, max_overtaken=None) == STREAM - 1


def test_first_come_first_served(tiny: Checkpoint) -> None:
    """With the schedule fcfs nobody overtakes, whatever is cached."""
    assert stream_of_hits(tiny, schedule="fcfs") == 0


def test_a_flood_does_not_keep_another_tenant_out(tiny: Checkpoint) -> None:
    """Tenants take turns: one request behind twenty of another waits for one or two of them."""
    engine = make_engine(tiny, max_running=1, max_step_tokens=64)
    trunk = prompt(60)
    run(engine, [Request(99, trunk.copy(), SHORT, namespace=b"flood")])
    flood = [Request(1 + i, [*trunk, i], SHORT, namespace=b"flood") for i in range(20)]
    guest = Request(0, prompt(60, seed=1), SHORT, namespace=b"guest")
    engine.submit(*flood)
    engine.submit(guest)
    while guest.num_cached is None:
        engine.step()
    assert sum(request.num_cached is not None for request in flood) <= 2
    run(engine, [])


def test_the_order_of_service_tells_nothing_of_another_tenant(tiny: Checkpoint) -> None:
    """Whether another tenant's text is like one's own changes no order."""
    orders = []
    for known in (prompt(60), prompt(60, seed=5)):
        engine = make_engine(tiny, max_running=1, max_step_tokens=64)
        run(engine, [Request(99, known.copy(), SHORT, namespace=b"private")])
        requests = [
            Request(i, [*prompt(60), i], SHORT, namespace=name)
            for i, name in enumerate([b"private", b"probe"] * 4)
        ]
        probes = [Request(10 + i, prompt(40, seed=i), SHORT, namespace=b"probe") for i in range(4)]
        order: list[int] = []
        engine.submit(*requests, *probes)
        while engine.has_work:
            ended = [event.request_id for event in engine.step() if event.finish is not None]
            order += [number for number in ended if number >= 10 or number % 2]
        orders.append(order)
    assert orders[0] == orders[1]


def test_priority_goes_first(tiny: Checkpoint) -> None:
    """A higher one is admitted before lower ones that came earlier and have a hit."""
    engine = make_engine(tiny, max_running=1, max_step_tokens=64)
    trunk = prompt(60)
    run(engine, [Request(99, trunk.copy(), SHORT)])
    low = [Request(1 + i, [*trunk, i], SHORT) for i in range(6)]
    urgent = Request(0, prompt(30, seed=2), SHORT, priority=1)
    engine.submit(*low)
    engine.step()
    engine.submit(urgent)
    while urgent.num_cached is None:
        engine.step()
    assert sum(request.num_cached is not None for request in low) == 1
    run(engine, [])
