"""A response whose server is gone: stored as far as it was, and gone on with by the next one."""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radixchat.server.local import LocalSettings
from radixchat.tests.server.interrupted_reader import InterruptedReader
from radixchat.tests.server.server_process import serving
from radixchat.tests.server.sockets import (
    Address,
    Server,
    held_to_its_numbers,
    open_server,
    socket_url,
    text_of,
)
from radixchat.tests.slow_steps import slow_command, slowed
from radixchat.tests.tiny_model import endless_model_directory, tiny_model_directory

CONTINUE = {"x": {"continue": True}}
SAMPLED: dict[str, Any] = {"temperature": 1.7, "x": {"seed": 11, "ignore_eos": True}}


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with room for long answers."""
    return endless_model_directory(tmp_path_factory.mktemp("endless"), 4096)


async def whole_answer(server: Address, text: str, **fields: Any) -> str:
    """Of a run that nothing interrupts."""
    async with server.client() as client:
        response = await client.begin(text, **fields)
        await client.end(response)
        return held_to_its_numbers(client.seen, response)


@pytest.mark.parametrize("cut", [2, 30])
def test_the_next_server_goes_on_with_the_same_answer(settings: LocalSettings, cut: int) -> None:
    """Greedy or sampled: cut before its first text or in it, the text is the uninterrupted one."""
    ask = {"max_output_tokens": 200, "event_id": "mine", **SAMPLED}

    async def first(server: Server) -> tuple[InterruptedReader, str]:
        whole = await whole_answer(server, "Hi", **{**ask, "event_id": "other"})
        reader = InterruptedReader(server, {"input": "Hi", **ask}, [])
        return reader, whole

    async def second(server: Server, reader: InterruptedReader, boot_id: str, whole: str) -> None:
        assert server.host.boot_id != boot_id
        async with server.client() as client:
            stored = await client.ask("response.resume", response_id=reader.response)
            assert stored["mode"] in ("replay", "snapshot")
            end = await client.end(str(reader.response))
            assert end["response"]["incomplete_details"]["reason"] == "server_shutdown"
            so_far = text_of(end).rstrip("\ufffd")  # it may end within a character
            assert whole.startswith(so_far)
        reader.server, reader.resume = server, CONTINUE
        assert await reader.read() == whole
        async with server.client() as client:
            again = await client.ask("response.resume", response_id=reader.response, **CONTINUE)
            assert again["type"] == "response.resumed", "it has ended, and is told once more"
            assert text_of(await client.end(str(reader.response))) == whole

    async def main() -> None:
        with ExitStack() as slow:
            async with open_server(settings) as server:
                reader, whole = await first(server)
                boot_id = server.host.boot_id
                slow.enter_context(slowed(0.02))  # most of it is still to come when the server ends
                await reader.connect(cut)
        async with open_server(settings) as server:
            await second(server, reader, boot_id, whole)

    asyncio.run(asyncio.wait_for(main(), 300))


def test_two_who_go_on_with_it_read_one_answer(settings: LocalSettings) -> None:
    """Whoever comes first has it continued; the other reads along."""

    async def main() -> None:
        with slowed(0.02):
            async with open_server(settings) as server:
                reader = InterruptedReader(
                    server, {"input": "Hi", "max_output_tokens": 200, **SAMPLED}, []
                )
                await reader.connect(12)
        async with open_server(settings) as server:
            other = replace(reader, server=server, resume=CONTINUE, ends=[])
            reader.server, reader.resume = server, CONTINUE
            texts = await asyncio.gather(reader.read(), other.read())
            assert len(set(texts)) == 1
            ends = (reader.ends[0], other.ends[0])
            assert [end["response"]["usage"]["output_tokens"] for end in ends] == [200, 200]

    asyncio.run(asyncio.wait_for(main(), 300))


def test_what_cannot_go_on_stays_as_it_was(settings: LocalSettings, tmp_path: Path) -> None:
    """Another model's server refuses, and nothing is locked: the right one goes on later."""
    other = replace(settings, model=str(tiny_model_directory(tmp_path / "other", seed=1)))
    ask: dict[str, Any] = {"max_output_tokens": 200, **SAMPLED}

    async def main() -> None:
        with ExitStack() as slow:
            async with open_server(settings) as server:
                whole = await whole_answer(server, "Hi", **ask)
                reader = InterruptedReader(server, {"input": "Hi", **ask}, [])
                slow.enter_context(slowed(0.02))
                await reader.connect(12)
        async with open_server(other) as server, server.client() as client:
            for _ in range(2):
                refused = await client.ask(
                    "response.resume", response_id=reader.response, **CONTINUE
                )
                assert refused["error"]["code"] == "invalid_value"
                assert "another model" in refused["error"]["message"]
        async with open_server(settings) as server:
            reader.server, reader.resume = server, CONTINUE
            assert await reader.read() == whole

    asyncio.run(asyncio.wait_for(main(), 300))


@pytest.mark.slow
def test_killed_servers_lose_nothing_that_was_said(endless: Path, tmp_path: Path) -> None:
    """kill -9 in the middle of an answer, again and again: the next process goes on with it.

    The text is that of a run that nothing interrupts, numbers only rise, and there is one end.
    """
    dice = random.Random(3)
    ask: dict[str, Any] = {"max_output_tokens": 2500, **SAMPLED}
    reader: InterruptedReader | None = None
    whole, kills = "", 0
    while reader is None or not reader.ends:
        with serving(endless, tmp_path, command=slow_command(0.003)) as process:
            server = Address(socket_url(process.url))
            if reader is None:
                whole = asyncio.run(whole_answer(server, "Hi", **ask))
                reader = InterruptedReader(server, {"input": "Hi", "event_id": "mine", **ask}, [])
            reader.server, reader.resume = server, CONTINUE
            cut = dice.randint(1, 150) if kills < 8 else None
            asyncio.run(asyncio.wait_for(reader.connect(cut), 300))
            kills += 1
    assert kills > 4
    assert len(reader.ends) == 1
    assert reader.text == text_of(reader.ends[0]) == whole
