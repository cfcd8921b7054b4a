"""Answers that the end of a process has cut short, and what of them goes on: numbers, limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from radixchat.engine.errors import PromptTooLong
from radixchat.server.asks import InputMessage, NewTurn
from radixchat.server.encode import Encoder
from radixchat.server.local import LocalSettings, open_host
from radixchat.server.message import Answer
from radixchat.server.protocol import ResponseFormat, ResponseOptions
from radixchat.server.response import SEQUENCE_RESERVE
from radixchat.server.service import ChatService, Response
from radixchat.tests.server.services import GREEDY, LONG, finish, serve
from radixchat.tests.slow_steps import slowed

ENDLESS = replace(LONG, ignore_eos=True, max_output_tokens=400)
ASK = NewTurn((InputMessage("user", "Tell me"),))


async def wire(response: Response, after: int = -1) -> list[dict[str, Any]]:
    """What a reader gets who has everything up to that number."""
    encoder = Encoder(None, True, "m", after=after)
    encoder.events(response.created)
    reader = response.subscribe(after=after)
    events: list[dict[str, Any]] = []
    while not reader.ended:
        await asyncio.wait_for(reader.wait(), 30)
        for event in reader.take():
            events += encoder.events(event)
    reader.close()
    return events


def text_of(events: list[dict[str, Any]]) -> str:
    """Of a reader who puts each delta at its offset, and takes a snapshot for the whole."""
    text = ""
    for event in events:
        match event["type"]:
            case "response.output_text.delta":
                text = text[: event["x"]["offset"]] + event["delta"]
            case "response.snapshot":
                text = event["output_text"]
    return text


async def cut_short(
    service: ChatService,
    options: ResponseOptions = GREEDY,
    saved: Answer | None = None,
    **extras: Any,
) -> str:
    """A response in progress, as a process leaves it that is killed: `saved` of it, or nothing."""
    store, host = service.host.store, service.host
    conversation = await service.create_conversation()
    said = host.prompts.user_turn(await service._path(conversation), "Tell me")
    begun = await host.database(
        store.begin_response,
        conversation=conversation,
        expected_tip=None,
        parent=None,
        user=said.message,
        options=asdict(replace(options, seed=1)) | extras,
        render_hash=host.prompts.render_hash,
        principal="local",
    )
    if saved is not None:
        await host.database(store.save_partial, begun.id, saved, SEQUENCE_RESERVE + 40)
    return begun.id


def two_processes(
    settings: LocalSettings,
    first: Callable[[ChatService], Awaitable[str]],
    second: Callable[[ChatService, str], Awaitable[None]],
) -> None:
    """The second goes on with the response that the first one returns."""
    response = serve(first, settings)
    serve(lambda service: second(service, response), settings)


def test_who_has_heard_of_the_end_misses_nothing_of_what_follows(settings: LocalSettings) -> None:
    """The numbers of an answer that goes on are higher than those of the end that it had."""

    async def main() -> None:
        own = replace(settings, threads=1)
        async with open_host(own) as host:
            with slowed(0.02):
                response = await host.service("local").begin(ASK, ENDLESS)
                reader = response.subscribe()
                while response.log.last_sequence < 20:
                    await reader.wait()
                    reader.take()
                await host.drain(0)
            ended = await wire(response)
            place = ended[-1]["sequence_number"]
            assert ended[-1]["type"] == "response.incomplete"
        async with open_host(own) as host:
            live = await host.service("local").continue_response(response.id)
            for after in (place, place - 3, 10):
                events = await wire(live, after)
                assert events[0]["type"] == "response.snapshot"
                assert text_of(events) == events[-1]["response"]["output"][0]["content"][0]["text"]
                numbers = [e["sequence_number"] for e in events if "sequence_number" in e]
                assert min(numbers) > after
                assert numbers == sorted(set(numbers))

    asyncio.run(asyncio.wait_for(main(), 300))


def test_the_end_of_what_was_never_saved_is_heard_of(settings: LocalSettings) -> None:
    """A reader who has text that is lost gets the end, under a number that it does not have."""

    async def second(service: ChatService, response: str) -> None:
        for after in (-1, 1, 30):
            events = await wire(await service.response(response), after)
            assert events[-1]["type"] == "response.incomplete"
            assert events[-1]["sequence_number"] == max(after, 1) + 1
        live = await service.continue_response(response)
        events = await wire(live, 30)
        assert text_of(events)
        assert all(e["sequence_number"] > 30 for e in events if "sequence_number" in e)
        row = await service.host.database(service.host.store.response, response, principal="local")
        assert row.sequence > SEQUENCE_RESERVE
        whole = await wire(live)
        expected = 0
        for event in whole:
            if "sequence_number" in event:
                number = event["sequence_number"]
                assert event.get("x", {}).get("first_sequence_number", number) == expected
                expected = number + 1

    two_processes(settings, cut_short, second)


def test_numbers_rise_from_process_to_process(settings: LocalSettings) -> None:
    """One that is killed before its first save has used numbers, too; none is given out again."""

    async def second(service: ChatService, response: str) -> None:
        live = await service.continue_response(response)
        first = live.log.last_sequence
        kept = await service.host.database(service.host.store.response, response, principal="local")
        assert kept.sequence >= first + SEQUENCE_RESERVE
        live.cancel()

    two_processes(settings, lambda service: cut_short(service, ENDLESS), second)


def test_a_warm_up_goes_on_as_one(settings: LocalSettings) -> None:
    """What only had its prompt computed has no answer afterwards either."""
    options = replace(GREEDY, max_output_tokens=1)

    async def second(service: ChatService, response: str) -> None:
        (*_, end) = await wire(await service.continue_response(response))
        assert end["type"] == "response.completed"
        assert end["response"]["output"] == []

    two_processes(settings, lambda service: cut_short(service, options, generate=False), second)


@pytest.mark.parametrize("limit", [None, 5])
def test_an_answer_whose_last_token_was_saved_ends_with_it(
    settings: LocalSettings, limit: int | None
) -> None:
    """By its grammar or by its length: what was cut short was only the end's being stored."""
    grammar = ResponseFormat("choice", '["yes", "no"]') if limit is None else None
    options = ResponseOptions(
        temperature=0, max_output_tokens=limit, response_format=grammar, ignore_eos=True, seed=1
    )
    whole = ""

    async def first(service: ChatService) -> str:
        nonlocal whole
        conversation = await service.create_conversation()
        done = await finish(service.send(conversation, "Tell me", options))
        whole = done.output_text
        count = done.usage.kept_tokens
        return await cut_short(service, options, Answer(whole, done.output_ids[:count]))

    async def second(service: ChatService, response: str) -> None:
        events = await wire(await service.continue_response(response))
        assert text_of(events) == whole != ""

    two_processes(settings, first, second)


def test_what_has_no_room_any_more_stays_as_it_was(settings: LocalSettings) -> None:
    """A server with a shorter context refuses, and keeps what was said."""
    saved = Answer("abc", tuple(range(60, 100)))
    response = serve(lambda service: cut_short(service, ENDLESS, saved), settings)

    async def second(service: ChatService) -> None:
        with pytest.raises(PromptTooLong):
            await service.continue_response(response)
        stored = await service.response(response)
        assert stored.done is not None
        assert (stored.done.reason, stored.done.output_text) == ("server_shutdown", "abc")

    serve(second, replace(settings, pool_tokens=48))
