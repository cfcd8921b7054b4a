"""Several turns that go on from one response at the same time."""

from __future__ import annotations

import asyncio

from radixchat.server.asks import InputMessage, NewTurn
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import ResponseDone
from radixchat.server.service import ChatService, Response
from radixchat.tests.server.services import GREEDY, serve


async def end(response: Response) -> ResponseDone:
    reader = response.subscribe()
    while not reader.ended:
        await asyncio.wait_for(reader.wait(), 30)
        events = reader.take()
    reader.close()
    done = events[-1]
    assert isinstance(done, ResponseDone)
    return done


def test_forks_at_the_same_time_do_not_lock_each_other(settings: LocalSettings) -> None:
    """One goes on in the conversation, the others in their own; all find the same prefix."""

    async def body(service: ChatService) -> None:
        first = await service.begin(NewTurn((InputMessage("user", "Hi there"),)), GREEDY)
        done = await end(first)
        asks = [
            NewTurn((InputMessage("user", f"Fork {n}"),), previous_response=first.id)
            for n in range(4)
        ]
        forks = await asyncio.gather(*(service.begin(ask, GREEDY) for ask in asks))
        conversations = {fork.created.conversation for fork in forks}
        assert len(conversations) == 4
        assert first.created.conversation in conversations
        known = len(done.input_ids) + len(done.output_ids) - 1
        for fork in forks:
            usage = (await end(fork)).usage
            assert usage is not None
            assert usage.cached_tokens >= known

    serve(body, settings)
