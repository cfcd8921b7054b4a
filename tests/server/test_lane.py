"""Lanes: order inside one, parallel beside each other, bounds, an end that leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from radixchat.server.lane import LaneRefused, Lanes

Job = Callable[[], Awaitable[None]]


def note(done: list[str], name: str, gate: asyncio.Event | None = None) -> Job:
    """A job that waits for the gate, and then says that it ran."""

    async def job() -> None:
        if gate is not None:
            await gate.wait()
        done.append(name)

    return job


async def steps() -> None:
    """Let every task go on as far as it can without waiting for time."""
    for _ in range(100):
        await asyncio.sleep(0)


def test_one_lane_is_first_in_first_out() -> None:
    """Jobs of a lane run in the order in which they came, one at a time."""

    async def main() -> None:
        done: list[str] = []
        gate = asyncio.Event()
        lanes = Lanes(8, 4)
        lanes.put("a", note(done, "slow", gate))
        lanes.put("a", note(done, "quick"))
        await steps()
        assert done == []
        gate.set()
        await steps()
        assert done == ["slow", "quick"]
        assert not lanes._lanes

    asyncio.run(main())


def test_lanes_do_not_wait_for_each_other() -> None:
    """A lane that waits holds up no other, nor the one without a name."""

    async def main() -> None:
        done: list[str] = []
        lanes = Lanes(8, 4)
        lanes.put("a", note(done, "a", asyncio.Event()))
        lanes.put("b", note(done, "b"))
        lanes.put(None, note(done, "none"))
        await steps()
        assert done == ["b", "none"]
        await lanes.close()

    asyncio.run(main())


def test_a_lane_with_nothing_to_do_counts_for_nothing() -> None:
    """The limit is on lanes in use: any number of names may be used one after the other."""

    async def main() -> None:
        done: list[str] = []
        lanes = Lanes(2, 4)
        for index in range(10):
            lanes.put(f"lane-{index}", note(done, str(index)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert len(done) == 10

    asyncio.run(main())


def test_more_lanes_or_jobs_than_allowed_are_refused() -> None:
    """The refusal names the limit that was met; what was accepted before is unharmed."""

    async def main() -> None:
        done: list[str] = []
        gate = asyncio.Event()
        lanes = Lanes(2, 1)
        lanes.put("a", note(done, "a1", gate))
        lanes.put("a", note(done, "a2"))
        lanes.put("b", note(done, "b1", gate))
        with pytest.raises(LaneRefused) as refused:
            lanes.put("a", note(done, "a3"))
        assert (refused.value.what, refused.value.limit) == ("queued", 1)
        with pytest.raises(LaneRefused) as refused:
            lanes.put("c", note(done, "c1"))
        assert (refused.value.what, refused.value.limit) == ("lanes", 2)
        gate.set()
        await steps()
        assert sorted(done) == ["a1", "a2", "b1"]

    asyncio.run(main())


def test_closing_cancels_what_runs_and_drops_what_waits() -> None:
    """After close() nothing runs, also where a job had not even started."""

    async def main() -> None:
        done: list[str] = []
        cancelled: list[str] = []

        async def job() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append("a1")

        lanes = Lanes(8, 4)
        lanes.put("a", job)
        lanes.put("a", note(done, "a2"))
        await asyncio.sleep(0)
        lanes.put("b", note(done, "b1"))
        await lanes.close()
        await steps()
        assert cancelled == ["a1"]
        assert done == []
        assert not lanes._lanes

    asyncio.run(main())
