"""An answer that was cut short goes on: as it would have gone, for the price of what is new."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.engine.errors import InvalidRequest
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import (
    OutputTextDelta,
    ResponseCreated,
    ResponseEvent,
    ResponseFormat,
    ResponseOptions,
)
from radixchat.server.service import ChatService
from radixchat.tests.server.services import GREEDY, finish, serve
from radixchat.tests.tiny_model import endless_model_directory


@pytest.fixture
def endless(settings: LocalSettings, tmp_path: Path) -> LocalSettings:
    """A model that never ends an answer by itself."""
    return replace(settings, model=str(endless_model_directory(tmp_path / "endless", 4096)))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_it_is_the_answer_that_was_cut(endless: LocalSettings, temperature: float) -> None:
    """In two pieces, in three, at once: the same text, with a seed also where it is sampled."""

    async def body(service: ChatService) -> None:
        def options(tokens: int) -> ResponseOptions:
            return ResponseOptions(temperature=temperature, seed=7, max_output_tokens=tokens)

        whole = await service.create_conversation()
        expected = await finish(service.send(whole, "Tell me more", options(60)))
        cut = await service.create_conversation()
        done = await finish(service.send(cut, "Tell me more", options(23)))
        for tokens in (7, 30):
            longer = await finish(service.extend(cut, options(tokens)))
            assert longer.output_text.startswith(done.output_text.rstrip("\ufffd"))
            assert longer.usage.cached_tokens == longer.usage.input_tokens - 1
            done = longer
        assert done.output_text == expected.output_text
        assert done.output_ids == expected.output_ids
        messages = await service.messages(cut)
        assert [m.role for m in messages] == ["user", "assistant"]
        assert messages[-1].text == expected.output_text
        answers = [m for m in await service.tree(cut) if m.role == "assistant"]
        assert len(answers) == 3, "the shorter ones stay"

    serve(body, endless)


def test_only_new_tokens_are_computed(endless: LocalSettings) -> None:
    """The prompt and the answer so far are cached: a row a token, and one for the last."""

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation()
        options = replace(GREEDY, speculate=False)
        done = await finish(service.send(conversation, "Tell me more", options))
        before = (await service.stats())["computed_tokens"]
        async with aclosing(service.extend(conversation, options)) as events:
            seen = [event async for event in events]
        assert isinstance(seen[0], ResponseCreated)
        first = seen[1]
        assert isinstance(first, OutputTextDelta)
        assert done.output_text.startswith(first.delta)
        computed = (await service.stats())["computed_tokens"]
        assert isinstance(computed, int)
        assert isinstance(before, int)
        # The answer's last token had no KV yet; then one row for each new token but the last.
        assert computed - before == 10

    serve(body, endless)


def test_what_cannot_be_gone_on_with(endless: LocalSettings) -> None:
    """Nothing said, not answered, complete, of unknown tokens, of another form: refused."""

    async def refused(events: AsyncGenerator[ResponseEvent], why: str) -> None:
        with pytest.raises(InvalidRequest, match=why):
            await finish(events)

    async def body(service: ChatService) -> None:
        conversation = await service.create_conversation("Be brief.")
        await refused(service.extend(conversation, GREEDY), "no answer to continue")
        done = await finish(service.send(conversation, "Tell me more", GREEDY))
        json = replace(GREEDY, response_format=ResponseFormat("json_object"))
        await refused(service.extend(conversation, json), "not the form")
        stop = replace(GREEDY, stop=(done.output_text[2:4],))
        await refused(service.extend(conversation, stop), "has the stop text")
        await service.update_conversation(conversation, system="Be kind.")
        await refused(service.extend(conversation, GREEDY), "only answered again")
        form = ResponseFormat("choice", '["yes"]')
        await finish(service.send(conversation, "Now?", replace(GREEDY, response_format=form)))
        await refused(service.extend(conversation, GREEDY), "complete")

    serve(body, endless)


def test_a_form_is_gone_on_with(endless: LocalSettings) -> None:
    """An answer of a form that was cut goes on to that form's end."""

    async def body(service: ChatService) -> None:
        form = ResponseFormat("regex", "(ab){20}")
        options = replace(GREEDY, response_format=form, max_output_tokens=5)
        conversation = await service.create_conversation()
        done = await finish(service.send(conversation, "Say it", options))
        assert done.status == "incomplete"
        longer = await finish(service.extend(conversation, replace(options, max_output_tokens=100)))
        assert longer.output_text == "ab" * 20
        assert longer.status == "completed"

    serve(body, endless)
