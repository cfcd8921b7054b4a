"""A service to talk to, for the tests: a real engine, a tiny model, turns held to a contract."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from radixchat.engine.thread import EngineThread
from radixchat.server.host import ChatHost
from radixchat.server.local import LocalSettings, load_model, open_service
from radixchat.server.protocol import (
    OutputTextDelta,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseOptions,
)
from radixchat.server.service import ChatService
from radixchat.server.store_thread import open_store

T = TypeVar("T")
GREEDY = ResponseOptions(temperature=0, max_output_tokens=10)
# Goes on for 300 steps, and for 6 s of a test that is `unhurried`.
LONG = ResponseOptions(temperature=0, max_output_tokens=300, speculate=False)


def serve(body: Callable[[ChatService], Awaitable[T]], settings: LocalSettings) -> T:
    """Run `body` with a service that is open for its duration."""

    async def main() -> T:
        async with open_service(replace(settings, threads=1)) as service:
            return await asyncio.wait_for(body(service), 300)

    return asyncio.run(main())


@asynccontextmanager
async def open_for(
    settings: LocalSettings, *principals: str, thread: type[EngineThread] = EngineThread
) -> AsyncIterator[list[ChatService]]:
    """A service for each principal, all over one engine and one store."""
    async with open_store(settings.database) as database:
        model = await asyncio.to_thread(load_model, replace(settings, threads=1))
        engine = thread(model.engine)
        engine.start()
        host = ChatHost(
            engine=engine,
            plan=model.engine.plan,
            database=database,
            tokenizer=model.tokenizer,
            prompts=model.prompts,
            options=model.options,
            model_name=settings.model,
            notices=(),
            namespace_of=functools.partial(model.engine.namespace, b"a secret of the tests"),
        )
        try:
            yield [host.service(principal) for principal in principals]
        finally:
            await host.close()


async def finish(events: AsyncGenerator[ResponseEvent]) -> ResponseDone:
    """The terminal event, after holding the stream to its contract."""
    return (await both_ends(events))[1]


async def both_ends(
    events: AsyncGenerator[ResponseEvent],
) -> tuple[ResponseCreated, ResponseDone]:
    """The first event and the terminal one, after holding the stream to its contract."""
    async with aclosing(events):
        seen = [event async for event in events]
    created, done = seen[0], seen[-1]
    assert isinstance(created, ResponseCreated)
    assert isinstance(done, ResponseDone)
    deltas = seen[1:-1]
    assert all(isinstance(event, OutputTextDelta) for event in deltas)
    assert "".join(e.delta for e in deltas if isinstance(e, OutputTextDelta)) == done.output_text
    return created, done
