"""A service to talk to, for the tests: a real engine, a tiny model, turns held to a contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from radixchat.server.local import LocalSettings, open_service
from radixchat.server.protocol import (
    OutputTextDelta,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseOptions,
)
from radixchat.server.service import ChatService

T = TypeVar("T")
GREEDY = ResponseOptions(temperature=0, max_output_tokens=10)
LONG = ResponseOptions(temperature=0, max_output_tokens=300)


def serve(body: Callable[[ChatService], Awaitable[T]], settings: LocalSettings) -> T:
    """Run `body` with a service that is open for its duration."""

    async def main() -> T:
        async with open_service(replace(settings, threads=1)) as service:
            return await asyncio.wait_for(body(service), 60)

    return asyncio.run(main())


async def finish(events: AsyncGenerator[ResponseEvent]) -> ResponseDone:
    """The terminal event, after holding the stream to its contract."""
    async with aclosing(events):
        seen = [event async for event in events]
    assert isinstance(seen[0], ResponseCreated)
    done = seen[-1]
    assert isinstance(done, ResponseDone)
    deltas = seen[1:-1]
    assert all(isinstance(event, OutputTextDelta) for event in deltas)
    assert "".join(e.delta for e in deltas if isinstance(e, OutputTextDelta)) == done.output_text
    return done
