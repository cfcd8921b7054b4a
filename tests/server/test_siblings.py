"""Answers beside an answer: at once, in one conversation's tree, and gone with it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

from radixchat.server.local import LocalSettings
from radixchat.server.protocol import ResponseCreated, ResponseDone
from radixchat.server.service import ChatService
from radixchat.server.store import Store
from radixchat.tests.server.services import GREEDY, both_ends, finish, open_for, serve
from radixchat.tests.server.turns import load, say

SAMPLED = replace(GREEDY, temperature=2.0)


async def three_answers(service: ChatService, conversation: str) -> list[ResponseDone]:
    """Of the last question, two of them begun while the first runs."""
    async with aclosing(service.regenerate(conversation, replace(SAMPLED, seed=1))) as events:
        created = await anext(events)
        assert isinstance(created, ResponseCreated)
        others = [
            asyncio.create_task(
                finish(service.sibling(created.response, replace(SAMPLED, seed=seed)))
            )
            for seed in (2, 3)
        ]
        rest = [event async for event in events]
    first = rest[-1]
    assert isinstance(first, ResponseDone)
    return [first, *[await other for other in others]]


def test_siblings_are_in_the_tree_and_can_be_chosen(settings: LocalSettings) -> None:
    """All answers hang below the question; the tip is the first, until another is chosen."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation("Be brief.")
        await finish(service.send(conversation, "Hello", GREEDY))
        answers = await three_answers(service, conversation)
        tree = await service.tree(conversation)
        question = next(m for m in tree if m.role == "user")
        found = {r for m in tree if m.parent == question.id for r in m.responses}
        assert {a.response for a in answers} <= found
        messages = await service.messages(conversation)
        assert messages[-1].text == answers[0].output_text
        third = answers[2].response
        assert third is not None
        await service.update_conversation(conversation, tip=third)
        assert (await service.messages(conversation))[-1].text == answers[2].output_text
        done = await finish(service.send(conversation, "Go on", GREEDY))
        assert done.usage.cached_tokens >= answers[2].usage.input_tokens

    serve(body, settings)


def test_siblings_are_deleted_with_their_conversation(settings: LocalSettings) -> None:
    """No row, no word and no cached token of them is left."""

    async def main() -> None:
        async with open_for(settings, "ada") as (service,):
            conversation = await service.create_conversation()
            await finish(service.send(conversation, "A secretive question", GREEDY))
            await three_answers(service, conversation)
            assert len(await service.conversations()) == 1
            await service.delete_conversation(conversation)
            assert await service.search("secretive") == []
            assert (await service.cache_tree()).nodes == ()
        assert settings.database is not None
        with Store(settings.database) as store, store._file.reading() as db:
            for table in ("message", "holding", "conversation", "response", "passed"):
                assert db.table(table).count == 0, table

    asyncio.run(main())


def test_a_sibling_whose_conversation_is_gone_goes_too(settings: LocalSettings) -> None:
    """It is deleted while the sibling runs: nothing of it may stay."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        created, _ = await both_ends(service.send(conversation, "A question", GREEDY))
        events = service.sibling(created.response, replace(GREEDY, max_output_tokens=200))
        first = await anext(events)
        assert isinstance(first, ResponseCreated)
        await service.delete_conversation(conversation)
        await events.aclose()
        assert await service.search("question") == []
        assert (await service.cache_tree()).nodes == ()

    serve(body, settings)


def test_a_killed_process_leaves_its_siblings_in_the_tree(settings: LocalSettings) -> None:
    """What was saved of one that nobody works on any more is an answer of its conversation."""
    assert settings.database is not None
    with Store(settings.database) as store:
        conversation = store.create_conversation(principal="local")
        say(store, conversation, "Hello")
        question = load(store, conversation).messages[-2].id
        made = store.create_conversation(
            principal="local", tip=question, listed=False, sibling_of=conversation
        )
        begun = store.begin_response(
            conversation=made,
            expected_tip=question,
            parent=question,
            user=None,
            options={},
            render_hash="r",
            principal="local",
        )
        with store._file.writing() as db:
            db.table("response").update(begun.id, {"owner": "flock_gone", "text": "Hel"})
    with Store(settings.database) as store:
        tree = store.tree(conversation, principal="local")
        assert [m.text for m in tree if begun.id in m.responses] == ["Hel"]
        assert store.verify() == []


def test_a_sibling_that_never_began_goes_too(settings: LocalSettings) -> None:
    """Its process was killed between the two: the conversation made for it holds the question."""
    assert settings.database is not None
    with Store(settings.database) as store:
        conversation = store.create_conversation(principal="local")
        say(store, conversation, "Hello")
        question = load(store, conversation).messages[-2].id
        store.create_conversation(
            principal="local", tip=question, listed=False, sibling_of=conversation
        )
        store.delete_conversation(conversation, principal="local")
        with store._file.reading() as db:
            assert db.table("conversation").count == db.table("message").count == 0
