"""The turn after an answer that a stop string ended: it goes on from what was shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from radixchat.server.local import LocalSettings
from radixchat.server.protocol import ResponseDone
from radixchat.server.service import ChatService
from radixchat.tests.server.services import GREEDY, finish, serve


@pytest.mark.parametrize("length", [1, 2, 4])
def test_only_the_stop_string_is_forgotten(settings: LocalSettings, length: int) -> None:
    """The next prompt has the shown text and nothing of the stop; all of that was cached."""

    async def body(service: ChatService) -> tuple[ResponseDone, ResponseDone, list[str]]:
        conversation = await service.create_conversation()
        whole = (await finish(service.send(conversation, "Hi", GREEDY))).output_text
        stop = whole[3 : 3 + length]
        stopping = replace(GREEDY, stop=(stop,))
        stopped = await finish(service.regenerate(conversation, stopping))
        assert (stopped.stop, stopped.output_text) == (stop, whole[: whole.index(stop)])
        after = await finish(service.send(conversation, "And?", GREEDY))
        return stopped, after, [m.text for m in await service.messages(conversation)]

    stopped, after, texts = serve(body, settings)
    assert stopped.output_text in texts
    kept = stopped.usage.kept_tokens
    assert kept is not None
    assert kept < len(stopped.output_ids)
    conversation_ids = stopped.input_ids + stopped.output_ids[:kept]
    assert after.input_ids[: len(conversation_ids)] == conversation_ids
    assert (
        stopped.output_ids[kept : kept + length]
        != after.input_ids[len(conversation_ids) :][:length]
    )
    assert after.usage.cached_tokens == len(conversation_ids)
    assert after.miss is None


def test_an_answer_may_be_empty(
    settings: LocalSettings,
) -> None:
    """An answer that begins with a stop string is empty, and the conversation goes on."""

    async def body(service: ChatService) -> tuple[ResponseDone, ResponseDone]:
        conversation = await service.create_conversation()
        whole = (await finish(service.send(conversation, "Hi", GREEDY))).output_text
        stopping = replace(GREEDY, stop=(whole[:2],))
        stopped = await finish(service.regenerate(conversation, stopping))
        return stopped, await finish(service.send(conversation, "And?", GREEDY))

    stopped, after = serve(body, settings)
    assert (stopped.status, stopped.output_text, stopped.usage.kept_tokens) == ("completed", "", 0)
    assert after.usage.cached_tokens == len(stopped.input_ids)
    assert after.miss is None
