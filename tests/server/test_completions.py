"""Stateless answers without a socket: exact tokens from turn to turn, choices, calls, the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radixchat.engine.errors import InvalidRequest, PromptTooLong, ServerDraining
from radixchat.engine.prompt import ChatMessage
from radixchat.server.chat_ask import ChatAsk, TextAsk
from radixchat.server.completion_usage import completion_timings, completion_usage
from radixchat.server.completions import ChoiceEnd, ChoicePart, Completions, Run
from radixchat.server.host import ChatHost
from radixchat.server.local import LocalSettings, open_host
from radixchat.server.message_index import MessageIndex
from radixchat.server.response_options import ResponseFormat, ResponseOptions
from radixchat.server.tool import Tool, ToolUse
from radixchat.server.tool_format import tool_format
from radixchat.server.tool_text import CallPart, TextPart
from radixchat.tests.engine.driver import common_prefix

GREEDY = ResponseOptions(temperature=0, max_output_tokens=10)
LONG = ResponseOptions(temperature=0, max_output_tokens=300, ignore_eos=True, speculate=False)
WEATHER = Tool.of(
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Rome", "Oslo"]}},
                "required": ["city"],
            },
        },
    }
)


def user(text: str) -> ChatMessage:
    return ChatMessage("user", text)


def completions_of(host: ChatHost, principal: str = "a") -> Completions:
    return Completions(host, principal, MessageIndex())


def with_host(body: Callable[[ChatHost], Awaitable[None]], settings: LocalSettings) -> None:
    """Run `body` with a host that is open for its duration."""

    async def main() -> None:
        async with open_host(replace(settings, threads=1)) as host:
            await asyncio.wait_for(body(host), 300)

    asyncio.run(main())


@pytest.fixture
def roomy(settings: LocalSettings, tmp_path: Path) -> LocalSettings:
    """The tiny model with room for tools: a letter is a token, and they are told of in many."""
    model = tmp_path / "roomy"
    shutil.copytree(settings.model, model)
    config = json.loads((model / "config.json").read_text("utf-8"))
    config["max_position_embeddings"] = 4096
    (model / "config.json").write_text(json.dumps(config), "utf-8")
    return replace(settings, model=str(model))


async def ends_of(run: Run) -> list[ChoiceEnd]:
    """All choices, after holding the run to its contract: the parts are the whole."""
    texts: dict[int, str] = {}
    calls: dict[int, dict[int, str]] = {}
    shown: dict[int, list[Any]] = {}
    ends: list[ChoiceEnd] = []
    async with contextlib.aclosing(run.events) as events:
        async for event in events:
            if isinstance(event, ChoiceEnd):
                ends.append(event)
                continue
            assert event.index not in {end.sample.index for end in ends}
            shown.setdefault(event.index, []).extend(event.logprobs)
            for part in event.parts:
                match part:
                    case TextPart(text):
                        texts[event.index] = texts.get(event.index, "") + text
                    case CallPart():
                        told = calls.setdefault(event.index, {})
                        told[part.index] = told.get(part.index, "") + part.arguments
    for end in ends:
        index = end.sample.index
        assert texts.get(index, "") == end.message.content
        arguments = [call.arguments for call in end.message.tool_calls]
        assert list(calls.get(index, {}).values()) == arguments
        assert tuple(shown.get(index, [])) == (end.logprobs or ())
    assert run.samples.num_tokens == sum(len(end.sample.output_ids) for end in ends)
    return sorted(ends, key=lambda end: end.sample.index)


async def answer(completions: Completions, *chat: ChatMessage, **ask: Any) -> ChoiceEnd:
    """The one answer to a chat."""
    (end,) = await ends_of(await completions.chat(ChatAsk(chat, **{"options": GREEDY, **ask})))
    return end


def test_each_turn_computes_what_is_new(settings: LocalSettings) -> None:
    """A client that sends everything again hits as far as anything was computed, to the token."""

    async def body(host: ChatHost) -> None:
        completions = completions_of(host)
        chat: list[ChatMessage] = []
        computed: list[tuple[int, ...]] = []
        for turn in range(5):
            chat.append(user(f"turn {turn}"))
            end = await answer(completions, *chat)
            sample = end.sample
            longest = max((common_prefix(sample.prompt_ids, k) for k in computed), default=0)
            assert sample.usage.cached_tokens == min(longest, len(sample.prompt_ids) - 1)
            if computed:
                assert longest == len(computed[-1])
            computed.append((*sample.prompt_ids, *sample.output_ids)[:-1])
            chat.append(ChatMessage("assistant", end.message.content.strip()))
        edited = await answer(completions, *chat[:2], user("another"))
        longest = max(common_prefix(edited.sample.prompt_ids, known) for known in computed)
        assert edited.sample.usage.cached_tokens == longest

    with_host(body, settings)


def test_nobody_hits_what_another_has_said(settings: LocalSettings) -> None:
    """Not a token, though the question is the same."""

    async def body(host: ChatHost) -> None:
        mine = await answer(completions_of(host, "a"), user("the same question"))
        theirs = await answer(completions_of(host, "b"), user("the same question"))
        assert theirs.sample.usage.cached_tokens == 0
        assert theirs.message == mine.message

    with_host(body, settings)


def test_choices_share_a_prompt(settings: LocalSettings) -> None:
    """It is computed once and counts once; the first is the one that there would be alone."""

    async def body(host: ChatHost) -> None:
        completions = completions_of(host)
        options = ResponseOptions(temperature=2.0, max_output_tokens=12, seed=5)
        run = await completions.chat(ChatAsk((user("which one?"),), options, n=3))
        ends = await ends_of(run)
        assert len({end.message.content for end in ends}) == 3
        usage = completion_usage(run, ends)
        assert usage.prompt_tokens == len(ends[0].sample.prompt_ids)
        assert usage.completion_tokens == sum(len(end.sample.output_ids) for end in ends)
        assert usage.prompt_tokens_details["cached_tokens"] == 0
        assert [end.sample.usage.computed_tokens for end in ends[1:]] == [1, 1]
        alone = await answer(completions, user("which one?"), options=options)
        assert alone.message == ends[0].message
        timings = completion_timings([alone])
        assert timings is not None
        assert timings["cache_n"] + timings["prompt_n"] == usage.prompt_tokens
        assert timings["ttft_ms"] >= timings["prompt_ms"] > timings["queue_ms"]

    with_host(body, settings)


def test_every_choice_can_be_gone_on_from(settings: LocalSettings) -> None:
    """The client keeps the one it likes."""

    async def body(host: ChatHost) -> None:
        completions = completions_of(host)
        options = ResponseOptions(temperature=2.0, max_output_tokens=12, seed=5)
        run = await completions.chat(ChatAsk((user("which one?"),), options, n=3))
        for end in await ends_of(run):
            sample = end.sample
            after = await answer(completions, user("which one?"), end.message, user("go on"))
            known = (*sample.prompt_ids, *sample.answer_ids)
            assert after.sample.prompt_ids[: len(known)] == known

    with_host(body, settings)


def test_a_stop_text_ends_it(settings: LocalSettings) -> None:
    """It is told, not shown; the next turn goes on from what was shown."""

    async def body(host: ChatHost) -> None:
        completions = completions_of(host)
        letter = ord("a") - ord("!")
        options = replace(
            GREEDY, logit_bias=((letter, 100.0), (letter + 1, 50.0)), bad_words=("aaa",)
        )
        end = await answer(completions, user("?"), options=replace(options, stop=("baab",)))
        assert (end.message.content, end.finish, end.sample.stop) == ("aa", "stop", "baab")
        after = await answer(completions, user("?"), end.message, user("more"))
        known = (*end.sample.prompt_ids, *end.sample.output_ids[:2])
        assert after.sample.prompt_ids[: len(known)] == known
        assert after.sample.usage.cached_tokens == len(known)

    with_host(body, settings)


def test_logprobs_are_of_what_is_shown(settings: LocalSettings) -> None:
    """One for each token of the text; a stop token has none."""

    async def body(host: ChatHost) -> None:
        completions = completions_of(host)
        stop = next(iter(host.tokenizer.stop_ids))
        options = replace(GREEDY, top_logprobs=2, min_output_tokens=4, logit_bias=((stop, 100.0),))
        end = await answer(completions, user("?"), options=options)
        assert end.finish == "stop"
        assert end.logprobs is not None
        assert len(end.logprobs) == 4
        assert len(end.sample.output_ids) == 5
        assert all(len(logprob.top) == 2 for logprob in end.logprobs)
        assert (await answer(completions, user("?"))).logprobs is None

    with_host(body, settings)


def test_a_tool_is_called_and_its_result_is_read(roomy: LocalSettings) -> None:
    """A random model calls it as the schema says; with its result the next prompt is a hit."""

    async def body(host: ChatHost) -> None:
        completions = completions_of(host)
        use = ToolUse((WEATHER,), "required", parallel=False)
        options = replace(GREEDY, max_output_tokens=200, response_format=tool_format(use, None))
        question = user("the weather?")
        end = await answer(completions, question, use=use, options=options)
        assert end.finish == "tool_calls"
        assert end.message.content == ""
        (call,) = end.message.tool_calls
        assert call.name == "weather"
        assert json.loads(call.arguments)["city"] in ("Rome", "Oslo")
        result = ChatMessage("tool", "sunny <|im_end|>", tool_call_id=call.id)
        use = ToolUse((WEATHER,), "auto")
        after = await answer(completions, question, end.message, result, use=use)
        known = (*end.sample.prompt_ids, *end.sample.answer_ids)
        assert after.sample.prompt_ids[: len(known)] == known
        assert after.sample.usage.cached_tokens == len(known)
        again = await answer(completions, question, use=use)
        assert again.sample.usage.cached_tokens == len(end.sample.prompt_ids) - 1

    with_host(body, roomy)


def test_no_call_where_none_is_wanted(roomy: LocalSettings) -> None:
    """However much the model wants to: the mark of a call is never complete."""

    async def body(host: ChatHost) -> None:
        completions = completions_of(host)
        (mark,) = host.tokenizer.encode(">")
        options = replace(
            GREEDY,
            max_output_tokens=22,
            logit_bias=((mark, 90.0),),
            response_format=ResponseFormat("regex", "(<tool_call[>)])+"),
        )
        free = await answer(completions, user("?"), options=options)
        assert free.message.content == "<tool_call>" * 2
        use = ToolUse((WEATHER,), "none")
        end = await answer(completions, user("?"), use=use, options=options)
        assert end.message.content == "<tool_call)" * 2
        assert end.message.tool_calls == ()
        callable_ = await answer(completions, user("?"), use=replace(use, choice="auto"))
        assert callable_.sample.usage.cached_tokens == len(end.sample.prompt_ids) - 1

    with_host(body, roomy)


@pytest.mark.usefixtures("unhurried")
def test_leaving_cancels(settings: LocalSettings) -> None:
    """Within a step; what was computed stays, and what was sampled is counted."""

    async def body(host: ChatHost) -> None:
        completions = completions_of(host)
        run = await completions.chat(ChatAsk((user("?"),), LONG, n=2))
        async with contextlib.aclosing(run.events) as events:
            assert isinstance(await anext(events), ChoicePart)
        sampled = run.samples.num_tokens
        assert 0 < sampled < 600
        counters = await host.engine.ask(lambda engine: engine.snapshot())
        while counters.running:
            counters = await host.engine.ask(lambda engine: engine.snapshot())
        assert counters.counters.cancelled == 2
        assert counters.counters.output_tokens < sampled + 100  # a busy machine lets steps by
        after = await answer(completions, user("?"))
        assert after.sample.usage.computed_tokens == 1

    with_host(body, settings)


def test_what_cannot_run_is_refused_at_once(settings: LocalSettings) -> None:
    """A prompt that is too long, a draining server; nothing is computed."""

    async def body(host: ChatHost) -> None:
        completions = completions_of(host)
        with pytest.raises(PromptTooLong):
            await completions.chat(ChatAsk((user("x" * 600),), GREEDY))
        with pytest.raises(InvalidRequest, match="token 99999"):
            await completions.text(TextAsk(((1, 99999),), GREEDY))
        with pytest.raises(InvalidRequest, match="empty"):
            await completions.text(TextAsk(("",), GREEDY))
        host.stop_accepting()
        with pytest.raises(ServerDraining):
            await completions.chat(ChatAsk((user("?"),), GREEDY))
        assert host.engine.snapshot.counters.requests == 0

    with_host(body, settings)


def test_prompts_are_gone_on_with(settings: LocalSettings) -> None:
    """Text and tokens, several at once and several times; the prompt's own logprobs if asked."""

    async def body(host: ChatHost) -> None:
        completions = completions_of(host)
        ids = tuple(host.tokenizer.encode("abc"))
        run = await completions.text(TextAsk(("abc", ids, (5,)), GREEDY, n=2, prompt_logprobs=1))
        ends = await ends_of(run)
        assert [end.sample.prompt_ids for end in ends] == [ids] * 4 + [(5,)] * 2
        assert len({end.message.content for end in ends[:4]}) == 1
        assert ends[4].message == ends[5].message
        usage = completion_usage(run, ends)
        assert usage.prompt_tokens == 3 + 3 + 1
        assert usage.completion_tokens == 60
        first = ends[0].prompt_logprobs
        assert first is not None
        assert [logprob.token for logprob in first] == ["b", "c"]
        cold = completions_of(host, "another")
        (alone,) = await ends_of(await cold.text(TextAsk(("abc",), GREEDY, prompt_logprobs=1)))
        assert alone.prompt_logprobs == first
        assert alone.message == ends[0].message

    with_host(body, settings)
