"""Turns that come while a conversation is being answered, or about to be."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from radixchat.engine.errors import ConversationLocked
from radixchat.server.asks import EventKey, InputMessage, NewTurn
from radixchat.server.local import LocalSettings
from radixchat.server.response import LiveResponse
from radixchat.server.service import ChatService
from radixchat.tests.server.services import GREEDY, LONG, serve
from radixchat.tests.slow_steps import slowed

ENDLESS = replace(LONG, ignore_eos=True)  # six seconds, where each step takes 20 ms


def test_who_interrupts_ends_what_begins_at_the_same_time(settings: LocalSettings) -> None:
    """It is not known to run yet when the other looks, and the store says so only later."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        turns = [NewTurn((InputMessage("user", text),), conversation) for text in ("a", "b")]
        first = asyncio.create_task(service.begin(turns[0], ENDLESS, detach_s=-1))
        await asyncio.sleep(0)
        second = await service.begin(turns[1], GREEDY, on_busy="interrupt")
        ended = (await first).done
        assert ended is not None
        assert ended.reason == "interrupted"
        assert isinstance(second, LiveResponse)
        await asyncio.wait({second.task})
        said = [m.text for m in await service.messages(conversation) if m.role == "user"]
        assert said == ["a", "b"]

    with slowed(0.02):
        serve(body, settings)


def test_an_event_that_waits_twice_is_one_turn(settings: LocalSettings) -> None:
    """Sent again while it is in line, it adds none of its messages a second time."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        running = await service.begin(
            NewTurn((InputMessage("user", "first"),), conversation), ENDLESS, detach_s=-1
        )
        messages = (
            InputMessage("user", "before"),
            InputMessage("assistant", "it"),
            InputMessage("user", "the question"),
        )
        ask = NewTurn(messages, conversation)
        waiting = [
            asyncio.create_task(
                service.begin(ask, GREEDY, event=EventKey("e"), on_busy="queue", detach_s=-1)
            )
            for _ in range(2)
        ]
        await asyncio.sleep(0.05)
        running.cancel()
        one, other = await asyncio.gather(*waiting)
        assert one.id == other.id
        assert isinstance(one, LiveResponse)
        await asyncio.wait({one.task})
        texts = [message.text for message in await service.messages(conversation)]
        assert texts[2:5] == ["before", "it", "the question"]
        assert len(texts) == 6

    with slowed(0.02):
        serve(body, settings)


def test_events_at_the_same_time_leave_no_conversation_behind(settings: LocalSettings) -> None:
    """One response is begun, in one conversation."""

    async def body(service: ChatService) -> None:
        ask = NewTurn((InputMessage("user", "Hi"),))
        begun = await asyncio.gather(
            *(service.begin(ask, GREEDY, event=EventKey("e")) for _ in range(3))
        )
        assert len({response.id for response in begun}) == 1

        def count() -> int:
            with service.host.store._file.reading() as db:
                return int(db.table("conversation").count)

        assert await service.host.database(count) == 1

    with slowed(0.02):
        serve(body, settings)


def test_who_gives_up_leaves_the_line(settings: LocalSettings) -> None:
    """The next is served, and nothing is kept of a line where nobody waits."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        turn = NewTurn((InputMessage("user", "a"),), conversation)
        running = await service.begin(turn, ENDLESS, detach_s=-1)
        waiting = [
            asyncio.create_task(service.begin(turn, GREEDY, on_busy="queue", detach_s=-1))
            for _ in range(3)
        ]
        await asyncio.sleep(0.05)
        waiting[0].cancel()
        waiting[1].cancel()
        await asyncio.sleep(0.05)
        assert not waiting[2].done()
        running.cancel()
        last = await waiting[2]
        assert isinstance(last, LiveResponse)
        await asyncio.wait({last.task})
        lines = service.host.lines
        assert not lines._locks
        assert not lines._waiting
        assert (await service.conversation(conversation)).num_turns == 2
        try:
            await service.begin(turn, GREEDY)
        except ConversationLocked as error:
            raise AssertionError("nobody answers it") from error

    with slowed(0.02):
        serve(body, settings)
