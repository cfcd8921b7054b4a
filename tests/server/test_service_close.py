"""Closing a service: whatever runs is ended and stored, whatever fails, everything is closed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.engine.errors import EngineStopped, StoreError
from radixchat.server.local import LocalSettings, open_service
from radixchat.server.protocol import OutputTextDelta, ResponseDone, ResponseEvent
from radixchat.server.service import ChatService
from radixchat.server.store import Store
from radixchat.tests.server.services import GREEDY, LONG, finish, serve

# What runs when a service is closed still runs then.
pytestmark = pytest.mark.usefixtures("unhurried")


@pytest.fixture
def database(settings: LocalSettings) -> Path:
    assert settings.database is not None
    return settings.database


@contextmanager
def another_writer(database: Path) -> Iterator[sqlite3.Connection]:
    """Another process that has begun to write: a turn can be read and encoded, but not begun."""
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        yield writer


def statuses(database: Path) -> list[str]:
    """How the file says the responses ended, without the recovery of a store that is opened."""
    with closing(sqlite3.connect(database)) as reader:
        return [status for (status,) in reader.execute("SELECT status FROM response")]


def test_closing_ends_and_stores_what_runs(settings: LocalSettings, database: Path) -> None:
    """Leaving the service in mid-answer stores the partial as interrupted."""

    async def body(service: ChatService) -> str:
        conversation = await service.create_conversation()
        events = service.send(conversation, "endless", LONG)
        for _ in range(4):
            await anext(events)
        # Left open on purpose: close() must end it.
        asyncio.get_running_loop().call_later(30, events.aclose)
        return conversation

    conversation = serve(body, settings)
    assert statuses(database) == ["incomplete"]
    with Store(database) as store:
        path = store.path(
            store.conversation(conversation, principal="local").tip, principal="local"
        )
        assert [m.role for m in path] == ["user", "assistant"]
        assert path[-1].status == "interrupted"
        assert path[-1].token_ids
        assert store.verify() == []


def test_a_turn_after_closing_is_refused(settings: LocalSettings) -> None:
    """It raises EngineStopped and stores nothing, instead of waiting for ever."""

    async def main() -> None:
        async with open_service(replace(settings, threads=1)) as service:
            conversation = await service.create_conversation()
        with pytest.raises(EngineStopped, match="closed"):
            await finish(service.send(conversation, "late", GREEDY))

    asyncio.run(asyncio.wait_for(main(), 300))


def test_a_turn_that_begins_while_the_service_closes(
    settings: LocalSettings, database: Path
) -> None:
    """It is stored and ended like any other that runs; nobody waits for ever."""

    async def main() -> ResponseDone:
        async with open_service(replace(settings, threads=1)) as service:
            conversation = await service.create_conversation()
            with another_writer(database) as writer:
                turn = asyncio.create_task(finish(service.send(conversation, "late", LONG)))
                await asyncio.sleep(0.2)
                asyncio.get_running_loop().call_later(0.1, writer.rollback)
                await service.host.close()
                return await turn

    done = asyncio.run(asyncio.wait_for(main(), 300))
    assert (done.status, done.reason) == ("incomplete", "interrupted")
    assert statuses(database) == ["incomplete"]


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.003, 0.01, 0.03, 0.1])
def test_closing_at_any_moment_of_a_turn(
    settings: LocalSettings, database: Path, delay: float
) -> None:
    """The turn is refused, or stored and ended: never left in progress, never without an end."""

    async def main() -> str:
        async with open_service(replace(settings, threads=1)) as service:
            conversation = await service.create_conversation()
            turn = asyncio.create_task(finish(service.send(conversation, "now", LONG)))
            await asyncio.sleep(delay)
        try:
            return (await turn).status
        except EngineStopped:
            return "refused"

    status = asyncio.run(asyncio.wait_for(main(), 300))
    assert statuses(database) == ([] if status == "refused" else ["incomplete"])


def test_everything_is_closed_whatever_fails(settings: LocalSettings, database: Path) -> None:
    """With a disk that takes nothing any more: the turn ends, no thread and no lock remains."""

    async def main() -> tuple[ChatService, str, ResponseDone]:
        async with open_service(replace(settings, threads=1)) as service:
            conversation = await service.create_conversation()
            begun = asyncio.Event()

            async def watched() -> AsyncGenerator[ResponseEvent]:
                async for event in service.send(conversation, "now", LONG):
                    if isinstance(event, OutputTextDelta):
                        begun.set()
                    yield event

            turn = asyncio.create_task(finish(watched()))
            await begun.wait()  # the turn is stored, and most of its answer still to come
            connection, refuse = service.host.store._file._connection, "PRAGMA query_only = ON"
            await service.host.database(lambda: connection.execute(refuse).close())
            with pytest.raises(StoreError, match="cannot be written"):
                await service.host.close()
            return service, conversation, await turn

    service, conversation, done = asyncio.run(asyncio.wait_for(main(), 300))
    assert done.error is not None
    assert (done.status, done.error.code) == ("failed", "store_error")
    assert not service.host.engine._thread.is_alive()
    assert not any(thread.is_alive() for thread in service.host._database.thread._threads)
    assert [path.name for path in database.parent.glob("chat.db-owner-*")] == []
    with pytest.raises(EngineStopped, match="closed"):
        asyncio.run(service.messages(conversation))
    with Store(database) as store:
        assert [
            m.text
            for m in store.path(
                store.conversation(conversation, principal="local").tip, principal="local"
            )
        ][:1] == ["now"]


def test_a_turn_cancelled_twice_while_it_begins(settings: LocalSettings, database: Path) -> None:
    """Whoever is in a hurry leaves at once; the response that nobody waits for ends by itself."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        with another_writer(database) as writer:
            turn = asyncio.create_task(finish(service.send(conversation, "hurry", LONG)))
            await asyncio.sleep(0.2)
            for _ in range(2):
                turn.cancel()
                await asyncio.sleep(0.01)
            assert turn.cancelled()
            writer.rollback()
            for _ in range(3000):
                if statuses(database) == ["incomplete"]:
                    break
                await asyncio.sleep(0.01)
        done = await finish(service.send(conversation, "still here", GREEDY))
        assert done.status in {"completed", "incomplete"}

    serve(body, settings)
