"""Turns that are begun: forks, instructions, warm-ups, events, lines, ends of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radixchat.engine.errors import (
    ConversationLocked,
    ConversationNotFound,
    IdempotencyConflict,
    InvalidRequest,
    PromptTooLong,
    ResponseNotFound,
    ServerDraining,
)
from radixchat.server.asks import AnotherAnswer, Ask, EditedTurn, EventKey, InputMessage, NewTurn
from radixchat.server.local import LocalSettings, open_host
from radixchat.server.protocol import (
    CacheReport,
    OutputTextDelta,
    PrefillProgress,
    ResponseDone,
    ResponseEvent,
)
from radixchat.server.response import NEVER, LiveResponse
from radixchat.server.service import ChatService, Response
from radixchat.tests.server.services import GREEDY, LONG, open_for, serve
from radixchat.tests.slow_steps import slowed


def say(text: str, **where: Any) -> NewTurn:
    return NewTurn((InputMessage("user", text),), **where)


async def read(response: Response, after: int = -1) -> list[ResponseEvent]:
    reader = response.subscribe(after=after)
    events: list[ResponseEvent] = []
    while not reader.ended:
        await asyncio.wait_for(reader.wait(), 30)
        events += reader.take()
    reader.close()
    return events


async def end(response: Response) -> ResponseDone:
    done = (await read(response))[-1]
    assert isinstance(done, ResponseDone)
    return done


async def begin(service: ChatService, ask: Ask, **terms: Any) -> tuple[Response, ResponseDone]:
    response = await service.begin(ask, GREEDY, **terms)
    return response, await end(response)


def test_a_chain_of_responses_is_one_conversation_and_hits(settings: LocalSettings) -> None:
    """Each goes on from the one before, is found under its id, and no list shows them."""

    async def body(service: ChatService) -> None:
        first, done = await begin(service, say("Hi there, what is it?", instructions="Be terse."))
        second, then = await begin(
            service, say("Why so?", previous_response=first.id, instructions="Be terse.")
        )
        assert second.created.conversation == first.created.conversation
        assert not second.created.listed
        assert second.created.previous_response == first.id
        assert then.usage.cached_tokens >= len(done.input_ids) + len(done.output_ids) - 2
        assert await service.conversations() == []
        fork, other = await begin(
            service, say("In French?", previous_response=first.id, instructions="Be terse.")
        )
        assert fork.created.conversation != first.created.conversation
        assert other.usage.cached_tokens >= len(done.input_ids)
        with pytest.raises(ResponseNotFound):
            await service.begin(say("x", previous_response="resp_unknown"), GREEDY)

    serve(body, settings)


def test_instructions_are_not_carried_over(settings: LocalSettings) -> None:
    """Left out they are gone, and others replace them; the history stays as text."""

    async def body(service: ChatService) -> None:
        first, _ = await begin(service, say("Hi", instructions="Be terse."))
        for instructions in (None, "Be verbose."):
            ask = say("Go on", previous_response=first.id, instructions=instructions)
            response, _ = await begin(service, ask)
            path = await service.messages(response.created.conversation)
            systems = [message.text for message in path if message.role == "system"]
            assert systems == ([instructions] if instructions else [])
            assert [message.text for message in path if message.role == "user"] == ["Hi", "Go on"]

    serve(body, settings)


def test_instructions_of_a_conversation(settings: LocalSettings) -> None:
    """They are its system message, from its beginning on; others are refused by name."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        await begin(service, say("Hi", conversation=conversation, instructions="Be terse."))
        await begin(service, say("More", conversation=conversation, instructions="Be terse."))
        await begin(service, say("More", conversation=conversation))
        view = await service.conversation(conversation)
        assert (view.system, view.num_turns) == ("Be terse.", 3)
        with pytest.raises(InvalidRequest, match="other instructions"):
            await service.begin(say("x", conversation=conversation, instructions="No."), GREEDY)
        assert (await service.conversation(conversation)).num_turns == 3

    serve(body, settings)


def test_messages_before_the_question_join_the_history(settings: LocalSettings) -> None:
    """As text; a refused turn adds none of them."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        messages = (
            InputMessage("system", "Be terse."),
            InputMessage("user", "One?"),
            InputMessage("assistant", "Two."),
            InputMessage("user", "Three?"),
        )
        await begin(service, NewTurn(messages, conversation))
        path = [message.text for message in await service.messages(conversation)][:4]
        assert path == ["Be terse.", "One?", "Two.", "Three?"]
        before = await service.messages(conversation)
        too_long = (InputMessage("user", "x"), InputMessage("user", "word " * 5000))
        with pytest.raises(PromptTooLong):
            await service.begin(NewTurn(too_long, conversation), GREEDY)
        for wrong in ((InputMessage("assistant", "x"),), (), (InputMessage("tool", "x"),) * 2):
            with pytest.raises(InvalidRequest):
                await service.begin(NewTurn(wrong, conversation), GREEDY)
        assert await service.messages(conversation) == before
        assert await service.host.database(service.host.store.verify) == []

    serve(body, settings)


def test_a_refused_turn_leaves_no_conversation_of_its_own(settings: LocalSettings) -> None:
    """Neither too long a prompt nor a wrong message leaves a row behind."""

    async def body(service: ChatService) -> None:
        def count() -> int:
            with service.host.store._file.reading() as db:
                return int(db.table("conversation").count)

        for text in ("word " * 5000, "   "):
            with pytest.raises(InvalidRequest):
                await service.begin(say(text), GREEDY)
        assert await service.host.database(count) == 0

    serve(body, settings)


def test_a_warm_up_computes_the_prompt_and_nothing_else(settings: LocalSettings) -> None:
    """Completed without output; what goes on from it hits, instructions alone can be warmed."""

    async def body(service: ChatService) -> None:
        for messages in ((), (InputMessage("user", "Attend to what is to come."),)):
            ask = NewTurn(messages, instructions="You are a very patient assistant of many words.")
            warm, done = await begin(service, ask, generate=False)
            assert (done.status, done.output_text, done.usage.output_tokens) == ("completed", "", 0)
            assert done.sequence == 2
            follow = replace(ask, messages=(InputMessage("user", "Now?"),))
            _, then = await begin(service, replace(follow, previous_response=warm.id))
            assert then.usage.cached_tokens >= done.usage.input_tokens - 4
        with pytest.raises(InvalidRequest, match="nothing to compute"):
            await service.begin(NewTurn(()), GREEDY, generate=False)

    serve(body, settings)


@pytest.mark.usefixtures("unhurried")
def test_an_event_sent_again_is_the_same_response(settings: LocalSettings) -> None:
    """While it runs, when it has ended, in memory and from the store; other content is refused."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        ask, event = say("Hi", conversation=conversation), EventKey("e1")
        running = await service.begin(ask, LONG, event=event)
        again = await service.begin(ask, LONG, event=event)
        assert again is running
        running.cancel()
        done = await end(running)
        assert await service.begin(ask, LONG, event=event) is running
        service.host.drop(running.id)
        stored = await service.begin(ask, LONG, event=event)
        assert not isinstance(stored, LiveResponse)
        assert (await end(stored)).output_text == done.output_text
        with pytest.raises(IdempotencyConflict):
            await service.begin(say("Ho", conversation=conversation), LONG, event=event)
        assert (await service.conversation(conversation)).num_turns == 1
        assert (
            len(
                {
                    r.id
                    for r in await asyncio.gather(
                        *(
                            service.begin(say("More"), GREEDY, event=EventKey("e2"))
                            for _ in range(3)
                        )
                    )
                }
            )
            == 1
        )

    serve(body, settings)


@pytest.mark.usefixtures("unhurried")
def test_what_waits_for_a_conversation(settings: LocalSettings) -> None:
    """Refused with a time, in line behind what runs in the order of arrival, or instead of it."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()

        def turn(text: str) -> NewTurn:
            return say(text, conversation=conversation)

        running = await service.begin(turn("first"), replace(LONG, ignore_eos=True))
        with pytest.raises(ConversationLocked) as locked:
            await service.begin(turn("refused"), GREEDY)
        assert locked.value.retry_after_ms > 0
        queued = [
            asyncio.create_task(service.begin(turn(text), GREEDY, on_busy="queue"))
            for text in ("second", "third")
        ]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in queued)
        urgent = asyncio.create_task(service.begin(turn("last"), GREEDY, on_busy="interrupt"))
        running.cancel()
        await asyncio.gather(*queued, urgent)
        for task in (*queued, urgent):
            await end(task.result())
        said = [m.text for m in await service.messages(conversation) if m.role == "user"]
        assert said == ["first", "second", "third", "last"]
        running = await service.begin(turn("long"), replace(LONG, ignore_eos=True))
        await begin(service, turn("instead"), on_busy="interrupt")
        assert running.done is not None
        assert (running.done.status, running.done.reason) == ("incomplete", "interrupted")
        assert not service.host.lines._locks

    serve(body, settings)


@pytest.mark.usefixtures("unhurried")
def test_a_line_is_bounded(settings: LocalSettings) -> None:
    """The fifth that waits is refused."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        running = await service.begin(
            say("first", conversation=conversation), replace(LONG, ignore_eos=True)
        )
        waiting = [
            asyncio.create_task(
                service.begin(say("more", conversation=conversation), GREEDY, on_busy="queue")
            )
            for _ in range(5)
        ]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        (refused,) = done
        with pytest.raises(ConversationLocked, match="waiting"):
            refused.result()
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        running.cancel()
        await end(running)
        _, then = await begin(service, say("now", conversation=conversation))
        assert then.status in ("completed", "incomplete")

    serve(body, settings)


@pytest.mark.parametrize(("grace", "reason"), [(0.0, "interrupted"), (NEVER, "max_output_tokens")])
def test_a_response_that_nobody_reads(settings: LocalSettings, grace: float, reason: str) -> None:
    """After its grace it is cancelled; without one it goes on to its end."""

    async def body(service: ChatService) -> None:
        options = replace(LONG, max_output_tokens=450, ignore_eos=True, speculate=False)
        response = await service.begin(say("Hi"), options, detach_s=grace)
        reader = response.subscribe()
        while not any(isinstance(e, OutputTextDelta) for e in reader.take()):
            await reader.wait()
        reader.close()
        assert isinstance(response, LiveResponse)
        await asyncio.wait({response.task}, timeout=30)
        assert response.done is not None
        assert response.done.reason == reason

    with slowed(0.02 if reason == "interrupted" else 0.0):
        serve(body, settings)


def test_a_reader_that_comes_back_stops_the_clock(settings: LocalSettings) -> None:
    """Before its grace is over; what it missed is there."""

    async def body(service: ChatService) -> None:
        response = await service.begin(say("Hi"), replace(LONG, ignore_eos=True), detach_s=30)
        assert isinstance(response, LiveResponse)
        response.subscribe().close()
        clock = response._grace
        assert clock is not None
        reading = asyncio.create_task(read(response))
        await asyncio.sleep(0)
        assert clock.cancelled()
        done = (await reading)[-1]
        assert isinstance(done, ResponseDone)
        assert done.reason == "max_output_tokens"

    serve(body, settings)


def test_progress_and_the_caches_share_are_told(settings: LocalSettings) -> None:
    """To who asks: every token of the prompt is in one segment, and the messages are named."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation("Be terse.")
        await begin(service, say("Hello there", conversation=conversation))
        response = await service.begin(
            say("And then?", conversation=conversation), GREEDY, report=True
        )
        events = await read(response)
        report = next(event for event in events if isinstance(event, CacheReport))
        assert any(isinstance(event, PrefillProgress) for event in events)
        done = events[-1]
        assert isinstance(done, ResponseDone)
        assert report.cached_tokens == done.usage.cached_tokens > 0
        assert report.input_tokens == done.usage.input_tokens
        position = 0
        for segment in report.segments:
            assert segment.start == position
            position = segment.end
        assert position == report.input_tokens
        path = await service.messages(conversation)
        assert {segment.message for segment in report.segments} <= {m.id for m in path}
        cached = sum(s.end - s.start for s in report.segments if s.state == "memory")
        assert cached == report.cached_tokens

    serve(body, settings)


def test_another_answer_to_a_response(settings: LocalSettings) -> None:
    """Siblings from one question; the conversation's tip stays, and can be moved to one."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        first, done = await begin(service, say("Hi there", conversation=conversation))
        tip = (await service.conversation(conversation)).tip
        sampled = replace(GREEDY, temperature=2.0)
        siblings = [
            await service.begin(AnotherAnswer(response=first.id), replace(sampled, seed=seed))
            for seed in range(3)
        ]
        ends = [await end(sibling) for sibling in siblings]
        assert all(e.usage.cached_tokens == len(done.input_ids) - 1 for e in ends)
        assert (await service.conversation(conversation)).tip == tip
        moved = await service.update_conversation(conversation, tip=siblings[1].id)
        assert moved.tip != tip
        assert (await service.messages(conversation))[-1].text == ends[1].output_text
        await service.update_conversation(conversation, title="Named", tip=tip)
        assert (await service.conversation(conversation)).title == "Named"

    serve(body, settings)


def test_forks_and_their_names(settings: LocalSettings) -> None:
    """A fork goes on from a message, a response or the tip, and copies nothing."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        first, _ = await begin(service, say("One", conversation=conversation))
        await begin(service, say("Two", conversation=conversation))
        fork = await service.fork_conversation(conversation, at=first.id, title="Other")
        assert (fork.title, fork.num_turns) == ("Other", 1)
        whole = await service.fork_conversation(conversation)
        assert whole.num_turns == 2
        _, done = await begin(service, say("Three", conversation=fork.id))
        assert done.usage.cached_tokens > 0
        assert (await service.conversation(conversation)).num_turns == 2
        assert len(await service.conversations()) == 3
        await service.delete_conversation(conversation)
        assert [m.text for m in await service.messages(fork.id)][::2] == ["One", "Three"]

    serve(body, settings)


def test_a_deleted_conversation_is_gone_from_the_cache(settings: LocalSettings) -> None:
    """The same prompt later finds nothing of it (but what others have)."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation("Be so kind as to be terse.")
        _, done = await begin(service, say("A secret word", conversation=conversation))
        assert len((await service.cache_tree()).nodes) > 0
        await service.delete_conversation(conversation)
        assert (await service.cache_tree()).nodes == ()
        again = await service.create_conversation("Be so kind as to be terse.")
        _, cold = await begin(service, say("A secret word", conversation=again))
        assert cold.usage.cached_tokens == 0
        assert cold.input_ids == done.input_ids

    serve(body, settings)


def test_what_the_next_turn_would_find(settings: LocalSettings) -> None:
    """inspect foretells the usage of the turn, and leaves no trace."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        await begin(service, say("Hello there", conversation=conversation))
        told = await service.inspect(conversation=conversation, text="And then?")
        assert await service.inspect(conversation=conversation, text="And then?") == told
        _, done = await begin(service, say("And then?", conversation=conversation))
        assert told.cached_tokens == done.usage.cached_tokens > 0
        assert told.input_tokens == done.usage.input_tokens
        tree = await service.cache_tree(conversation)
        assert sum(node.tokens for node in tree.nodes if node.on_path) > 0
        assert (await service.inspect()).input_tokens == 0

    serve(body, settings)


def test_a_draft_is_computed_and_gone_without_a_trace(settings: LocalSettings) -> None:
    """What is typed hits when it is sent; what is typed otherwise leaves nothing in the cache."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        await begin(service, say("Hello there", conversation=conversation))
        before = await service.cache_tree()
        text = "Tell me all about the cache of the engine"
        assert await service.draft(conversation, 1, text) > 0
        assert await service.draft(conversation, 1, "old") == 0
        typed = await service.draft(conversation, 2, text + " and its tree")
        told = await service.inspect(conversation=conversation, text=text + " and its tree, please")
        assert told.cached_tokens >= typed - 1
        await service.drop_draft(conversation)
        (after,) = (await service.cache_tree()).nodes
        (node,) = before.nodes
        # The last token of the history itself had not been computed.
        assert (after.start, after.tokens) == (node.start, node.tokens + 1)
        assert await service.draft(conversation, 1, text) > 0
        _, done = await begin(service, say("Something else", conversation=conversation))
        nodes = (await service.cache_tree(conversation)).nodes
        computed = done.usage.input_tokens + len(done.output_ids) - 1
        assert max(n.start + n.tokens for n in nodes if n.on_path) == computed
        assert all(n.on_path for n in nodes)

    serve(body, settings)


def test_what_a_killed_server_began_goes_on(settings: LocalSettings) -> None:
    """In another process the same answer, with its seed, as if nothing had happened."""

    async def main() -> None:
        options = replace(LONG, temperature=1.0, seed=11, ignore_eos=True, max_output_tokens=60)
        own = replace(settings, threads=1)
        async with open_host(own) as host:
            service = host.service("local")
            whole = await service.begin(say("Tell me"), options)
            expected = await end(whole)
            longer = replace(options, max_output_tokens=400)
            with slowed(0.02):
                response = await service.begin(say("Tell me"), longer)
                reader = response.subscribe()
                seen = ""
                while len(seen) < 40:
                    await reader.wait()
                    came = (e for e in reader.take() if isinstance(e, OutputTextDelta))
                    seen += "".join(event.delta for event in came)
                await host.drain(0)
            last = response.log.last_sequence
            assert response.done is not None
            assert response.done.reason == "server_shutdown"
            with pytest.raises(ServerDraining):
                await service.begin(say("late"), GREEDY)
        async with open_host(own) as host:
            service = host.service("local")
            stored = await service.response(response.id)
            assert stored.done is not None
            assert stored.done.reason == "server_shutdown"
            live = await service.continue_response(response.id)
            assert await service.continue_response(response.id) is live
            events = await read(live, after=last)
            done = events[-1]
            assert isinstance(done, ResponseDone)
            assert done.output_text.startswith(expected.output_text[:-4])
            assert done.reason == "max_output_tokens"
            assert len(done.output_ids) == 400
            assert done.sequence > last
            deltas = [e for e in events if isinstance(e, OutputTextDelta)]
            assert all(e.sequence > last for e in deltas)
            host.drop(response.id)
            with pytest.raises(InvalidRequest, match="incomplete"):
                await service.continue_response(response.id)

    asyncio.run(asyncio.wait_for(main(), 300))


def test_edits_by_ask(settings: LocalSettings) -> None:
    """As the generator of the same name: another branch under the turn's parent."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        await begin(service, say("One", conversation=conversation))
        await begin(service, say("Two", conversation=conversation))
        await begin(service, EditedTurn(conversation, 1, "Uno"))
        assert [m.text for m in await service.messages(conversation)][::2] == ["Uno"]
        assert len([m for m in await service.tree(conversation) if m.role == "user"]) == 3
        for wrong in (AnotherAnswer(), AnotherAnswer("conv_x", "resp_x")):
            with pytest.raises(InvalidRequest, match="only one"):
                await service.begin(wrong, GREEDY)
        both = say("x", conversation=conversation, previous_response="resp_1")
        with pytest.raises(InvalidRequest, match="exclude"):
            await service.begin(both, GREEDY)

    serve(body, settings)


def test_principals_do_not_see_each_other(settings: LocalSettings, tmp_path: Path) -> None:
    """Another's id is not found, whatever it is asked for; another's cache is cold."""

    async def main() -> None:
        own = replace(settings, database=tmp_path / "two.db")
        async with open_for(own, "ann", "bob") as (ann, bob):
            conversation = await ann.create_conversation("Be so kind as to be terse.")
            response, first = await begin(ann, say("A secret", conversation=conversation))
            calls: list[Callable[[], Any]] = [
                lambda: bob.begin(say("x", conversation=conversation), GREEDY),
                lambda: bob.begin(say("x", previous_response=response.id), GREEDY),
                lambda: bob.begin(AnotherAnswer(response=response.id), GREEDY),
                lambda: bob.response(response.id),
                lambda: bob.cancel(response.id),
                lambda: bob.delete_response(response.id),
                lambda: bob.continue_response(response.id),
                lambda: bob.conversation(conversation),
                lambda: bob.delete_conversation(conversation),
                lambda: bob.fork_conversation(conversation),
                lambda: bob.tree(conversation),
                lambda: bob.messages(conversation),
                lambda: bob.undo(conversation),
                lambda: bob.inspect(conversation=conversation),
                lambda: bob.cache_tree(conversation),
                lambda: bob.draft(conversation, 1, "x"),
                lambda: bob.drop_draft(conversation),
            ]
            for call in calls:
                with pytest.raises((ResponseNotFound, ConversationNotFound)):
                    await call()
            mine = await bob.create_conversation()
            with pytest.raises(ResponseNotFound):
                await bob.update_conversation(mine, tip=response.id)
            assert await bob.search("secret") == []
            theirs = await bob.create_conversation("Be so kind as to be terse.")
            _, cold = await begin(bob, say("A secret", conversation=theirs))
            assert cold.usage.cached_tokens == 0
            assert cold.input_ids == first.input_ids

    asyncio.run(asyncio.wait_for(main(), 300))


def test_a_miss_is_explained_by_the_response_that_is_named(settings: LocalSettings) -> None:
    """Not by the conversation's own last one; an unknown name is told as such."""

    async def body(service: ChatService) -> None:
        first, _ = await begin(service, say("Hello there", instructions="Be terse, please."))
        other = say("Hello there", instructions="Be verbose, please.")
        _, done = await begin(service, other, compared=first.id)
        assert done.miss is not None
        assert done.miss.comparison_reusable_tokens == done.usage.cached_tokens > 0
        assert done.miss.reason == "changed"
        another = say("Hello there", instructions="Be brief, please.")
        _, cold = await begin(service, another, compared="resp_unknown")
        assert cold.miss is not None
        assert cold.miss.reason == "cold"

    serve(body, settings)
