"""Coming back to a response: from any place, at any time, on any socket, exactly once."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from radixchat.engine.engine import Engine
from radixchat.server.local import LocalSettings
from radixchat.server.serve_settings import ServeSettings
from radixchat.tests.server.interrupted_reader import InterruptedReader
from radixchat.tests.server.sockets import (
    Client,
    Server,
    held,
    held_to_its_numbers,
    serve_sockets,
    settled,
    text_of,
)
from radixchat.tests.slow_steps import slowed

LONG: dict[str, Any] = {"max_output_tokens": 120, "x": {"seed": 7, "ignore_eos": True}}
PROMPT = "a question of some length, so that its prompt takes more than one step to compute " * 3


def no_page_is_held(engine: Engine) -> bool:
    """The cache is sound, and whatever it has could make room."""
    engine.cache.check()
    return engine.cache.num_evictable_pages == engine.cache.num_cached_pages


async def uninterrupted(server: Server, ask: dict[str, Any]) -> str:
    """What the answer is when nothing happens."""
    fields = dict(ask)
    async with server.client() as client:
        response = await client.begin(fields.pop("input"), **fields)
        await client.end(response)
        return held_to_its_numbers(client.seen, response)


def test_a_reader_that_is_cut_anywhere_has_the_whole_answer(settings: LocalSettings) -> None:
    """Cut before it hears of the response, while it waits, in its prompt, in its text, at its end.

    The text is that of an uninterrupted run; there is one end, and nothing comes twice.
    """

    async def body(server: Server) -> None:
        dice = random.Random(1)
        ask = {"input": PROMPT, **LONG}
        whole = await uninterrupted(server, ask)
        readers = [
            InterruptedReader(
                server,
                {**ask, "event_id": f"cut-{index}"},
                [dice.choice((0, 1, 2, 3, 4, 8, 20, 60)) for _ in range(dice.randint(1, 3))],
            )
            for index in range(16)
        ]
        for start in (0, 8):
            texts = await asyncio.gather(*(reader.read() for reader in readers[start : start + 8]))
            assert texts == [whole] * 8
        assert sum(reader.num_cut for reader in readers) >= 16

    with slowed(0.003):  # so that a token is an event, and cuts are in the middle
        serve_sockets(body, settings)


@pytest.mark.slow
def test_a_socket_killed_two_hundred_times(settings: LocalSettings) -> None:
    """C9: at a random event each, eight readers at once: the same text, one end, every time."""
    asks = [
        {
            "input": f"{seed} {PROMPT}",
            "temperature": 1.5,
            "max_output_tokens": 100,
            "x": {"seed": seed, "ignore_eos": True, "return_progress": True},
        }
        for seed in range(8)
    ]

    async def body(server: Server) -> None:
        dice = random.Random(2)
        whole = [await uninterrupted(server, ask) for ask in asks]
        readers = [
            InterruptedReader(
                server, {**asks[index % 8], "event_id": f"kill-{index}"}, [dice.randint(0, 60)]
            )
            for index in range(240)
        ]
        for start in range(0, len(readers), 8):
            texts = await asyncio.gather(*(reader.read() for reader in readers[start : start + 8]))
            assert texts == whole
        assert sum(reader.num_cut for reader in readers) >= 200
        assert await server.host.engine.ask(no_page_is_held)

    with slowed(0.004):
        serve_sockets(body, settings)


@pytest.mark.parametrize("phase", ["queue", "prompt", "first token", "text"])
def test_coming_back_in_each_phase(settings: LocalSettings, phase: str) -> None:
    """T46: cut while it waits, while its prompt is computed, at the first token, in the text."""

    async def body(server: Server) -> None:
        ask = {"input": PROMPT, **LONG}
        whole = await uninterrupted(server, ask)
        with slowed(0.02):
            async with server.client() as client:
                place = await _cut_in(phase, server, client, ask)
                response = next(e for e in client.seen if e["type"] == "response.created")
                id_ = response["response"]["id"]
                assert id_ in server.host.running, "it is running, and nobody reads"
        async with server.client() as client:
            resumed = await client.ask("response.resume", response_id=id_, starting_after=place)
            assert (resumed["mode"], resumed["from"]) == ("replay", place + 1)
            end = await client.end(id_)
            assert text_of(end) == whole
            numbers = [e["sequence_number"] for e in client.seen if "sequence_number" in e]
            assert numbers[0] > place
            assert numbers == sorted(set(numbers))

    serve_sockets(body, settings)


@pytest.mark.parametrize("phase", ["queue", "prompt", "first token", "text"])
def test_leaving_for_good_in_each_phase(settings: LocalSettings, phase: str) -> None:
    """T45: where nobody may come back, the engine's work ends at once, and its pages are free."""
    ask = {"input": PROMPT, "max_output_tokens": 220, "x": {"ignore_eos": True, "detach_s": 0}}

    async def body(server: Server) -> None:
        async with server.client() as client:
            await _cut_in(phase, server, client, ask)
        await settled(lambda: not server.host.running)
        assert await server.host.engine.ask(no_page_is_held)
        before = server.host.engine.snapshot.counters.output_tokens
        await asyncio.sleep(0.05)
        assert server.host.engine.snapshot.counters.output_tokens == before
        async with server.client() as client:
            await client.end(await client.begin(PROMPT, max_output_tokens=2))

    with slowed(0.02):
        serve_sockets(body, settings)


async def _cut_in(phase: str, server: Server, client: Client, ask: dict[str, Any]) -> int:
    """Ask, and hang up in that phase; the last number that the client saw."""
    if phase in ("queue", "prompt"):
        # Behind another's step it waits; its own prompt is computed with the next.
        async with held(server):
            await client.send("response.create", **ask)
            await client.next("response.in_progress")
            if phase == "queue":
                await client.hang_up()
        if phase == "prompt":
            await client.hang_up()
    else:
        await client.send("response.create", **ask)
        for _ in range(1 if phase == "first token" else 20):
            await client.next("response.output_text.delta")
        await client.hang_up()
    return max(int(e["sequence_number"]) for e in client.seen if "sequence_number" in e)


def test_an_answer_that_has_ended_is_told_to_the_end(settings: LocalSettings) -> None:
    """From memory event by event; from the store as its text; and what nobody has, as not found."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            response = await client.begin(max_output_tokens=30)
            text = text_of(await client.end(response))
            last = client.seen[-1]["sequence_number"]
        for after in (-1, 0, 1, 3, 10, last - 1, last, last + 100):
            async with server.client() as client:
                resumed = await client.ask(
                    "response.resume", response_id=response, starting_after=after, stream_id="l"
                )
                assert resumed["mode"] == "replay"
                assert resumed["stream_id"] == "l"
                if after < last:
                    assert text_of(await client.end(response)) == text
                await client.ask("ping")
                numbers = [e["sequence_number"] for e in client.seen if "sequence_number" in e]
                assert all(number > after for number in numbers)
        server.host.drop(response)
        for after in (-1, 1, 6, last):
            async with server.client() as client:
                resumed = await client.ask(
                    "response.resume", response_id=response, starting_after=after
                )
                if after < last:
                    assert text_of(await client.end(response)) == text
        async with server.client() as client:
            for id_ in ("resp_nobody", "nonsense"):
                error = await client.ask("response.resume", response_id=id_)
                assert (error["status"], error["error"]["code"]) == (404, "response_not_found")
        assert server.edge.metrics.resumes == {"replay": 8, "stored": 4, "not_found": 2}

    serve_sockets(body, settings)


def test_resuming_on_the_same_socket_takes_over(settings: LocalSettings) -> None:
    """A client that resumes what it is being told gets one stream, from where it says."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            with slowed(0.02):
                response = await client.begin(stream_id="main", **LONG)
                await client.next("response.output_text.delta")
                queued = await client.send(
                    "response.create", input="next", stream_id="main", max_output_tokens=2
                )
                await client.ask("response.resume", response_id=response, starting_after=-1)
            await client.end(response)
            ends = [e for e in client.seen if e.get("response", {}).get("output")]
            assert len(ends) == 1, "one end"
            created = await client.until(
                lambda e: e["type"] == "response.created" and e["in_reply_to"] == queued
            )
            await client.end(created["response"]["id"])

    serve_sockets(body, settings)


def test_a_reader_that_nobody_waits_for(settings: LocalSettings) -> None:
    """disconnect_grace_s=-1: an answer goes on to its end without any reader, and is there."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            response = await client.begin(**LONG)
        await settled(lambda: not server.host.running)
        async with server.client() as client:
            await client.send("response.resume", response_id=response)
            end = await client.end(response)
            assert end["response"]["incomplete_details"] == {"reason": "max_output_tokens"}

    with slowed(0.001):
        serve_sockets(body, settings, ServeSettings(port=0, disconnect_grace_s=-1))
