"""Another system message for a conversation: the same words, computed after it; and back again."""

from __future__ import annotations

import pytest

from radixchat.engine.errors import ConversationLocked, InvalidRequest
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import ResponseCreated
from radixchat.server.service import ChatService
from radixchat.tests.server.services import GREEDY, LONG, finish, serve


@pytest.mark.parametrize(("before", "after"), [(None, "Be kind."), ("Be brief.", "Be kind.")])
def test_the_conversation_goes_on_under_another(
    settings: LocalSettings, before: str | None, after: str
) -> None:
    """The next prompt equals that of a conversation which began so; the old path can be had."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation(before)
        first = await finish(service.send(conversation, "My name is Ada.", GREEDY))
        old_tip = (await service.conversation(conversation)).tip
        view = await service.update_conversation(conversation, system=after)
        assert view.system == after
        assert view.num_turns == 1
        texts = [m.text for m in await service.messages(conversation)]
        assert texts == [after, "My name is Ada.", first.output_text]
        done = await finish(service.send(conversation, "And yours?", GREEDY))
        assert done.miss is None or done.miss.reason != "evicted"
        again = await service.update_conversation(conversation, tip=old_tip)
        assert again.system == before
        back = await finish(service.send(conversation, "Still there?", GREEDY))
        assert back.usage.cached_tokens >= first.usage.input_tokens

    serve(body, settings)


def test_removed_and_unchanged(settings: LocalSettings) -> None:
    """ "" removes it; the one that is there changes nothing; without turns it is just set."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        view = await service.update_conversation(conversation, system="Be brief.")
        assert view.system == "Be brief."
        await finish(service.send(conversation, "Hi", GREEDY))
        tip = (await service.conversation(conversation)).tip
        same = await service.update_conversation(conversation, system="Be brief.")
        assert same.tip == tip
        none = await service.update_conversation(conversation, system="")
        assert none.system is None
        assert [m.role for m in await service.messages(conversation)] == ["user", "assistant"]
        await finish(service.send(conversation, "And now?", GREEDY))
        await service.undo(conversation)
        await service.undo(conversation)
        assert await service.messages(conversation) == []
        found = service.host.store.verify
        assert await service.host.database(found) == []

    serve(body, settings)


def test_refused(settings: LocalSettings) -> None:
    """While an answer runs, and for text that is none; nothing has changed."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation("Be brief.")
        with pytest.raises(InvalidRequest, match="surrogate"):
            await service.update_conversation(conversation, system="\ud800")
        events = service.send(conversation, "Hi", LONG)
        assert isinstance(await anext(events), ResponseCreated)
        with pytest.raises(ConversationLocked):
            await service.update_conversation(conversation, system="Be kind.")
        await events.aclose()
        assert (await service.conversation(conversation)).system == "Be brief."

    serve(body, settings)
