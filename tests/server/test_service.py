"""The service over a real engine and store: every turn costs its new tokens, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.engine.errors import (
    ConversationLocked,
    ConversationNotFound,
    InvalidRequest,
    InvalidSamplingParams,
    PromptTooLong,
    ResponseNotFound,
)
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import OutputTextDelta, ResponseDone, ResponseEvent
from radixchat.server.service import ChatService
from radixchat.tests.engine.driver import common_prefix
from radixchat.tests.server.services import GREEDY, LONG, finish, serve
from radixchat.tests.tiny_model import tiny_model_directory


class Oracle:
    """What an ideal cache would have found: the longest prefix of anything that has KV."""

    def __init__(self) -> None:
        self.computed: list[list[int]] = []

    def check(self, done: ResponseDone) -> None:
        expected = max((common_prefix(done.input_ids, c) for c in self.computed), default=0)
        assert done.usage.input_tokens == len(done.input_ids)
        assert done.usage.cached_tokens == min(expected, len(done.input_ids) - 1)
        # The last sampled token has no KV: it was never forwarded.
        self.computed.append([*done.input_ids, *done.output_ids][:-1])


@pytest.mark.parametrize("page_size", [1, 8, 16, 32])
def test_every_way_to_go_on_reuses_what_the_oracle_says(
    settings: LocalSettings, page_size: int
) -> None:
    """Turns, regenerate, edit and undo: cached tokens equal the longest common prefix."""

    async def body(service: ChatService) -> None:
        oracle = Oracle()
        conversation = await service.create_conversation("Be brief.")
        first = await finish(service.send(conversation, "My name is Ada.", GREEDY))
        oracle.check(first)
        assert first.usage.cached_tokens == 0
        for text in ("What is my name?", "Say it\n\nbackwards. 名前 👩‍👩‍👧", "  again  "):
            done = await finish(service.send(conversation, text, GREEDY))
            oracle.check(done)
            assert done.usage.cached_tokens > first.usage.input_tokens
        again = await finish(service.regenerate(conversation, replace(GREEDY, temperature=2)))
        oracle.check(again)
        assert again.usage.cached_tokens == again.usage.input_tokens - 1
        edited = await finish(service.edit(conversation, 2, "What is my friend's name?", GREEDY))
        oracle.check(edited)
        assert edited.usage.cached_tokens > 0
        assert len(await service.messages(conversation)) == 5
        undone = await service.undo(conversation)
        assert undone.text == "What is my friend's name?"
        oracle.check(await finish(service.send(conversation, "And now?", GREEDY)))
        texts = [m.text for m in await service.messages(conversation) if m.role == "user"]
        assert texts == ["My name is Ada.", "And now?"]

    serve(body, replace(settings, page_size=page_size))


def test_the_cache_is_invisible(settings: LocalSettings) -> None:
    """The same conversation with the cache on and off has the same ids; off shows 0 cached."""

    async def body(service: ChatService) -> list[ResponseDone]:
        conversation = await service.create_conversation()
        turns = [await finish(service.send(conversation, f"turn {i}", GREEDY)) for i in range(4)]
        turns.append(await finish(service.regenerate(conversation, GREEDY)))
        turns.append(await finish(service.edit(conversation, 1, "other", GREEDY)))
        return turns

    cached = serve(body, replace(settings, database=None))
    plain = serve(body, replace(settings, database=None, prefix_cache=False))
    for with_cache, without in zip(cached, plain, strict=True):
        assert with_cache.output_ids == without.output_ids
        assert with_cache.input_ids == without.input_ids
        assert without.usage.cached_tokens == without.usage.cache_write_tokens == 0
    assert sum(turn.usage.cached_tokens for turn in cached) > 0


def test_a_conversation_goes_on_after_a_restart_with_its_exact_ids(
    settings: LocalSettings,
) -> None:
    """The next prompt starts with the stored ids, sampled ones included; nothing is re-encoded."""

    async def begin(service: ChatService) -> tuple[str, ResponseDone]:
        conversation = await service.create_conversation("Be brief.")
        await finish(service.send(conversation, "one", replace(GREEDY, temperature=2.0, seed=5)))
        return conversation, await finish(service.send(conversation, "two", GREEDY))

    conversation, before = serve(begin, settings)

    async def go_on(service: ChatService) -> ResponseDone:
        assert await service.latest_conversation() == conversation
        assert await service.resolve_conversation(conversation[:12]) == conversation
        return await finish(service.send(conversation, "three", GREEDY))

    after = serve(go_on, settings)
    known = (*before.input_ids, *before.output_ids)
    assert after.input_ids[: len(known)] == known
    assert after.usage.cached_tokens == 0  # a new process has an empty pool


def test_another_model_renders_the_whole_conversation_once(
    settings: LocalSettings, tmp_path: Path
) -> None:
    """Ids of one model mean nothing to another: its first turn starts from the text."""

    async def begin(service: ChatService) -> tuple[str, ResponseDone]:
        conversation = await service.create_conversation()
        return conversation, await finish(service.send(conversation, "one", GREEDY))

    conversation, _ = serve(begin, settings)
    other = tiny_model_directory(tmp_path / "other", seed=1)

    async def go_on(service: ChatService) -> None:
        oracle = Oracle()
        oracle.check(await finish(service.send(conversation, "two", GREEDY)))
        third = await finish(service.send(conversation, "three", GREEDY))
        oracle.check(third)
        assert third.usage.cached_tokens > 0
        oracle.check(await finish(service.regenerate(conversation, GREEDY)))

    serve(go_on, replace(settings, model=str(other)))
    # And back: what the first model had made is still its own, but the path is the other's.
    serve(go_on, settings)


@pytest.mark.usefixtures("unhurried")
def test_cancel_keeps_the_partial_answer_and_the_next_turn_reuses_it(
    settings: LocalSettings,
) -> None:
    """A stopped answer is "incomplete", stays in the conversation, and is cached."""

    async def body(service: ChatService) -> None:
        oracle = Oracle()
        conversation = await service.create_conversation()
        events = service.send(conversation, "talk", LONG)
        deltas = 0
        async with aclosing(events):
            async for event in events:
                match event:
                    case OutputTextDelta():
                        deltas += 1
                        if deltas == 3:
                            await service.cancel(event.response)
                    case ResponseDone():
                        done = event
        assert (done.status, done.reason) == ("incomplete", "interrupted")
        assert 0 < len(done.output_ids) < 300
        oracle.check(done)
        partial = (await service.messages(conversation))[-1]
        assert (partial.role, partial.status) == ("assistant", "interrupted")
        assert partial.text == done.output_text
        after = await finish(service.send(conversation, "go on", GREEDY))
        oracle.check(after)
        assert after.usage.cached_tokens >= len(done.input_ids) + len(done.output_ids) - 1
        assert done.response is not None
        await service.cancel(done.response)
        with pytest.raises(ResponseNotFound):
            await service.cancel("resp_unknown")

    serve(body, settings)


@pytest.mark.usefixtures("unhurried")
def test_leaving_the_iteration_stores_what_there_is(settings: LocalSettings) -> None:
    """A consumer that goes away after acceptance or in mid-answer leaves no lock behind."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        for count in (1, 4):
            events = service.send(conversation, f"leave after {count}", LONG)
            async with aclosing(events):
                for _ in range(count):
                    await anext(events)
            users = [m.text for m in await service.messages(conversation) if m.role == "user"]
            assert users[-1] == f"leave after {count}"
        assert (await service.messages(conversation))[-1].status == "interrupted"
        await finish(service.send(conversation, "still here", GREEDY))

    serve(body, settings)


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.003, 0.01, 0.03])
@pytest.mark.usefixtures("unhurried")
def test_a_cancelled_task_leaves_the_conversation_usable(
    settings: LocalSettings, delay: float
) -> None:
    """Whatever the turn was at when its task was cancelled, the next one works at once."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        options = replace(LONG, ignore_eos=True)  # the longest delay sees a part of it
        task = asyncio.create_task(finish(service.send(conversation, "cancelled", options)))
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        done = await finish(service.send(conversation, "still here", GREEDY))
        assert done.status in {"incomplete", "completed"}

    serve(body, settings)


def test_what_is_refused_changes_nothing(settings: LocalSettings) -> None:
    """Each refusal names its reason, and the conversation is as it was."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        await finish(service.send(conversation, "one", GREEDY))
        before = await service.messages(conversation)
        refused: list[tuple[AsyncGenerator[ResponseEvent], type[Exception], str]] = [
            (service.send(conversation, "", GREEDY), InvalidRequest, "''.*visible"),
            (service.send(conversation, " \n", GREEDY), InvalidRequest, "visible"),
            (service.send(conversation, "\ud800", GREEDY), InvalidRequest, "surrogate"),
            (service.send(conversation, "x" * 600, GREEDY), PromptTooLong, "context.*511"),
            (service.send("conv_nope", "x", GREEDY), ConversationNotFound, "conv_nope"),
            (service.edit(conversation, 2, "x", GREEDY), InvalidRequest, "turn 2"),
            (service.edit(conversation, 0, "x", GREEDY), InvalidRequest, "turn 0"),
            (
                service.send(conversation, "x", replace(GREEDY, top_p=2)),
                InvalidSamplingParams,
                "top_p is 2",
            ),
        ]
        for events, error, message in refused:
            with pytest.raises(error, match=message):
                await finish(events)
        assert await service.messages(conversation) == before
        empty = await service.create_conversation()
        with pytest.raises(InvalidRequest, match="regenerate"):
            await finish(service.regenerate(empty, GREEDY))
        with pytest.raises(InvalidRequest, match="undo"):
            await service.undo(empty)
        oracle_turn = await finish(service.send(conversation, "two", GREEDY))
        assert oracle_turn.usage.cached_tokens > 0

    serve(body, settings)


def test_a_prompt_longer_than_the_pool_is_refused_with_both_numbers(
    settings: LocalSettings,
) -> None:
    """The error names the prompt's tokens and what the pool admits; a short turn still works."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        with pytest.raises(PromptTooLong) as refusal:
            await finish(service.send(conversation, "y" * 200, GREEDY))
        assert refusal.value.limited_by == "pool"
        assert refusal.value.limit == 127
        assert refusal.value.num_tokens > 200
        assert await service.messages(conversation) == []
        await finish(service.send(conversation, "short", GREEDY))

    serve(body, replace(settings, pool_tokens=128))


@pytest.mark.usefixtures("unhurried")
def test_one_conversation_answers_one_turn_at_a_time(settings: LocalSettings) -> None:
    """A second turn meanwhile is refused, others run side by side, nothing interleaves."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        other = await service.create_conversation()
        events = service.send(conversation, "first", LONG)
        async with aclosing(events):
            await anext(events)
            with pytest.raises(ConversationLocked):
                await finish(service.send(conversation, "second", GREEDY))
            with pytest.raises(ConversationLocked):
                await service.undo(conversation)
            await finish(service.send(other, "elsewhere", GREEDY))
        await finish(service.send(conversation, "third", GREEDY))
        texts = [m.text for m in await service.messages(conversation) if m.role == "user"]
        assert texts == ["first", "third"]

    serve(body, settings)


def test_an_answer_ends_at_the_context_and_the_next_turn_is_refused(
    settings: LocalSettings,
) -> None:
    """The reason tells a full context from max_tokens; the conversation can be edited."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        done = await finish(
            service.send(conversation, "x" * 400, replace(LONG, max_output_tokens=None))
        )
        assert (done.status, done.reason) == ("incomplete", "context_length")
        assert len(done.input_ids) + len(done.output_ids) == service.n_ctx
        with pytest.raises(PromptTooLong):
            await finish(service.send(conversation, "more", GREEDY))
        await finish(service.edit(conversation, 1, "shorter", GREEDY))

    serve(body, settings)


def test_a_seed_makes_a_sampled_answer_repeatable(settings: LocalSettings) -> None:
    """The same seed gives the same ids, another seed others; none draws a new one."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        # Twenty tokens each: one in twenty-five runs two answers ended with their first token.
        options = replace(GREEDY, temperature=2.0, seed=3, max_output_tokens=20, ignore_eos=True)
        first = await finish(service.send(conversation, "roll", options))
        same = await finish(service.regenerate(conversation, options))
        other = await finish(service.regenerate(conversation, replace(options, seed=4)))
        drawn = [
            await finish(service.regenerate(conversation, replace(options, seed=None)))
            for _ in range(2)
        ]
        assert first.output_ids == same.output_ids
        assert first.seed == 3
        assert len({first.seed, other.seed, *(d.seed for d in drawn)}) == 4
        repeated = replace(options, seed=drawn[0].seed)
        again = await finish(service.regenerate(conversation, repeated))
        assert again.output_ids == drawn[0].output_ids
        assert len({first.output_ids, other.output_ids, *(d.output_ids for d in drawn)}) == 4

    serve(body, settings)
