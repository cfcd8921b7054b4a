"""What the service tells the cache: whose turn it is, which branch was left, who has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from radixchat.engine.engine import Engine
from radixchat.engine.hint import Hint, Observe, Signal, Supersede
from radixchat.engine.thread import EngineThread
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import ResponseDone
from radixchat.server.service import ChatService
from radixchat.tests.server.services import GREEDY, finish, open_for


class OverheardThread(EngineThread):
    """An engine thread that remembers what it was told."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.heard: list[Hint] = []

    def hint(self, hint: Hint) -> None:
        self.heard.append(hint)
        super().hint(hint)


def overhear(
    settings: LocalSettings,
    body: Callable[[ChatService, list[Hint]], Awaitable[None]],
) -> None:
    """Run `body` with a service and the list of what its engine is told."""
    threads: list[OverheardThread] = []

    class Thread(OverheardThread):
        def __init__(self, engine: Engine) -> None:
            super().__init__(engine)
            threads.append(self)

    async def main() -> None:
        async with open_for(settings, "local", thread=Thread) as (service,):
            await body(service, threads[0].heard)

    asyncio.run(asyncio.wait_for(main(), 300))


def left(earlier: ResponseDone, start: int) -> tuple[tuple[int, ...], int]:
    """The branch of a response, and where it was left; its stop token is not kept."""
    stopped = earlier.status == "completed"
    return earlier.input_ids + earlier.output_ids[: len(earlier.output_ids) - stopped], start


def test_a_branch_that_was_left_is_told(settings: LocalSettings) -> None:
    """Another answer, an edit and an undo leave one; a plain turn leaves none."""

    async def body(service: ChatService, heard: list[Hint]) -> None:
        def told() -> list[tuple[tuple[int, ...], int]]:
            hints, heard[:] = list(heard), []
            assert all(isinstance(hint, Supersede) for hint in hints)
            return [(h.tokens, h.start) for h in hints if isinstance(h, Supersede)]

        conversation = await service.create_conversation()
        first = await finish(service.send(conversation, "one", GREEDY))
        second = await finish(service.send(conversation, "two", GREEDY))
        assert told() == []
        again = await finish(service.regenerate(conversation, GREEDY))
        assert told() == [left(second, len(second.input_ids))]
        edited = await finish(service.edit(conversation, 2, "to?", GREEDY))
        start = len(left(first, 0)[0]) + len("?\n?user\nt")
        assert told() == [left(again, start)]
        await service.undo(conversation)
        assert told() == [left(edited, len(left(first, 0)[0]))]
        await finish(service.send(conversation, "on", GREEDY))
        assert told() == []

    overhear(settings, body)


def test_a_conversation_that_was_closed_is_told(settings: LocalSettings) -> None:
    """It can be continued all the same."""

    async def body(service: ChatService, heard: list[Hint]) -> None:
        conversation = await service.create_conversation()
        await finish(service.send(conversation, "one", GREEDY))
        await service.close_conversation(conversation)
        assert heard == [Observe(conversation, Signal.CLOSED)]
        done = await finish(service.send(conversation, "two", GREEDY))
        assert done.usage.cached_tokens > 0

    overhear(settings, body)
