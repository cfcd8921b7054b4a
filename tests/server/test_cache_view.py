"""Drafts, and what of a conversation stays in the cache when it is gone."""

from __future__ import annotations

import asyncio

import pytest

from radixchat.engine.errors import ConversationNotFound, PromptTooLong
from radixchat.server.asks import InputMessage, NewTurn
from radixchat.server.local import LocalSettings
from radixchat.server.response import LiveResponse
from radixchat.server.service import ChatService
from radixchat.tests.server.services import GREEDY, finish, serve

DRAFT = "Tell me all about the cache of the engine"


def test_a_draft_goes_with_its_conversation(settings: LocalSettings) -> None:
    """Also where it is drafted at the moment of the deletion; nothing of it is kept."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        assert await service.draft(conversation, 1, DRAFT) > 0
        await service.delete_conversation(conversation)
        assert service._cache._drafts == {}
        assert (await service.cache_tree()).nodes == ()
        late = await service.create_conversation()
        drafting = asyncio.create_task(service.draft(late, 1, DRAFT))
        await service.delete_conversation(late)
        await asyncio.gather(drafting, return_exceptions=True)
        with pytest.raises(ConversationNotFound):
            await service.drop_draft(late)
        assert service._cache._drafts == {}
        assert (await service.cache_tree()).nodes == ()

    serve(body, settings)


def test_a_text_that_is_far_too_long_is_not_encoded(settings: LocalSettings) -> None:
    """Neither as a draft, seven times, nor to be looked up."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        text = "word " * 500_000
        for call in (
            service.draft(conversation, 1, text),
            service.inspect(conversation=conversation, text=text),
        ):
            with pytest.raises(PromptTooLong, match="at least"):
                await call
        assert service._cache._drafts == {}

    serve(body, settings)


def test_a_deleted_response_is_gone_from_the_cache(settings: LocalSettings) -> None:
    """With the conversation that was made for it; what others have stays."""

    async def body(service: ChatService) -> None:
        kept = await service.create_conversation()
        await finish(service.send(kept, "Something else", GREEDY))
        before = (await service.cache_tree()).nodes
        response = await service.begin(NewTurn((InputMessage("user", "A secret word"),)), GREEDY)
        assert isinstance(response, LiveResponse)
        await asyncio.wait({response.task})
        assert (await service.cache_tree()).cached_tokens > sum(node.tokens for node in before)
        await service.delete_response(response.id)
        after = (await service.cache_tree()).nodes
        assert sum(node.tokens for node in after) == sum(node.tokens for node in before)

    serve(body, settings)
