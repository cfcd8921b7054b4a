"""The lanes of one connection: jobs of one lane run one after the other, lanes beside each other.

Knows no socket and no response; a job is an async function that deals with its own failures.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

Job = Callable[[], Awaitable[None]]


class LaneRefused(Exception):
    """No room: `what` ("lanes" or "queued"), and the `limit` that was met."""

    def __init__(self, what: str, limit: int) -> None:
        self.what = what
        self.limit = limit
        super().__init__(f"{what}: the limit is {limit}")


@dataclass(slots=True)
class _Lane:
    """Jobs that have not ended, and the task that runs the first of them."""

    jobs: deque[Job] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None


class Lanes:
    """Runs jobs in named lanes. A lane that has nothing to do counts for nothing."""

    def __init__(self, max_lanes: int, max_queued: int) -> None:
        """max_queued: jobs that may wait in one lane behind the one that runs."""
        self._max_lanes = max_lanes
        self._max_queued = max_queued
        self._lanes: dict[str | None, _Lane] = {}

    def put(self, name: str | None, job: Job) -> None:
        """Run the job when those before it in its lane have ended. Raises LaneRefused."""
        lane = self._lanes.get(name)
        if lane is None:
            if len(self._lanes) >= self._max_lanes:
                raise LaneRefused("lanes", self._max_lanes)
            lane = self._lanes[name] = _Lane(deque([job]))
            lane.task = asyncio.create_task(self._run(name, lane), name=f"lane {name}")
        elif len(lane.jobs) > self._max_queued:
            raise LaneRefused("queued", self._max_queued)
        else:
            lane.jobs.append(job)

    async def close(self) -> None:
        """Cancel what runs, drop what waits."""
        tasks = {lane.task for lane in self._lanes.values() if lane.task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._lanes.clear()

    async def _run(self, name: str | None, lane: _Lane) -> None:
        try:
            while lane.jobs:
                await lane.jobs[0]()
                lane.jobs.popleft()
        finally:
            self._lanes.pop(name, None)
