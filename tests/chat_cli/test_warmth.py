"""The line at the bottom: what it says at every width, and that asking for it does no harm."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from radixchat.chat_cli.async_client import AsyncChatClient
from radixchat.chat_cli.client import ChatClient, open_client
from radixchat.chat_cli.warmth import Warmth, warmth
from radixchat.server.local import LocalSettings
from radixchat.tests.chat_cli.flapping_proxy import flapping_proxy
from radixchat.tests.chat_cli.scripted import tiny_settings
from radixchat.tests.server.sockets import Server, serve_sockets, settled

WARM = Warmth("SmolLM2-135M-Instruct", 8192, "conv_1", 1240, 1239)
PARTLY = replace(WARM, cached=812)


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (20, "1,240/8,192 · warm"),
        (40, "SmolLM2-135M-I… · 1,240/8,192 15% · warm"),
        (80, "SmolLM2-135M-Instruct · ██░░░░░░ 1,240/8,192 15% · next turn warm"),
        (
            200,
            "SmolLM2-135M-Instruct · context ██░░░░░░ 1,240 of 8,192 (15%) · "
            "next turn warm: 1,239 of 1,240 tokens cached",
        ),
    ],
)
def test_widths(width: int, line: str) -> None:
    """What matters most stays longest: the context, then how warm it is, then the model."""
    assert WARM.line(width) == line


@pytest.mark.parametrize(
    "what",
    [
        WARM,
        PARTLY,
        replace(WARM, cached=0),
        replace(WARM, tokens=None, cached=None),
        replace(WARM, model="模型-很长的名字-很长的名字"),
        replace(WARM, tokens=123_456_789, n_ctx=999_999_999),
    ],
)
def test_it_never_wraps(what: Warmth) -> None:
    """Whatever is in it, on a terminal of any width."""
    for width in range(1, 130):
        assert cell_len(what.line(width)) <= width


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (PARTLY, "· next turn 65% warm: 812 of 1,240 tokens cached"),
        (replace(WARM, cached=1238), "· next turn 99% warm: 1,238 of 1,240 tokens cached"),
        (replace(WARM, cached=0), "· next turn cold: 0 of 1,240 tokens cached"),
        (replace(WARM, tokens=0, cached=None), "context ░░░░░░░░ 0 of 8,192 (0%)"),
        (replace(WARM, tokens=1, cached=0), "context █░░░░░░░ 1 of 8,192 (<1%) · next turn warm"),
        (replace(WARM, tokens=9000), "context ████████ 9,000 of 8,192 (110%)"),
        (replace(WARM, tokens=None), "SmolLM2-135M-Instruct"),
        (replace(WARM, tokens=0, n_ctx=0), "SmolLM2-135M-Instruct"),
        (replace(WARM, model="a\x1b[2Jb"), "a␛[2Jb ·"),
    ],
)
def test_states(what: Warmth, words: str) -> None:
    """Almost warm is not warm; what nobody knows is not said; names are made harmless."""
    assert words in what.line(200)


def test_of_a_conversation(tiny_model: Path, tmp_path: Path) -> None:
    """Empty without one, then cold, and warm after a turn; asked twice it is the same."""
    settings = tiny_settings(tiny_model, tmp_path / "sessions.db")

    async def run() -> None:
        async with open_client(settings) as client:
            assert await warmth(client, None) == Warmth(client.model_name, client.n_ctx, None, 0)
            conversation = await client.create_conversation("be brief")
            assert (await warmth(client, conversation)).state == "cold"
            async for _ in client.send(conversation, "one", settings.answer):
                pass
            asked = [await warmth(client, conversation) for _ in range(2)]
            assert asked[0] == asked[1]
            assert asked[0].state == "warm"
            assert (await client.stats())["requests"] == 1

    asyncio.run(run())


def test_errors_leave_what_was_known(tiny_model: Path, tmp_path: Path) -> None:
    """Of this conversation, and of no other: of that nothing is known then."""
    settings = tiny_settings(tiny_model, tmp_path / "sessions.db")

    async def run() -> None:
        async with open_client(settings) as client:
            last = replace(WARM, conversation="conv_gone")
            assert await warmth(client, "conv_gone", last) is last
            for other in (None, WARM):
                told = await warmth(client, "conv_gone", other)
                assert told == Warmth(client.model_name, client.n_ctx, "conv_gone")

    asyncio.run(run())


def test_of_a_server(tiny_model: Path, tmp_path: Path) -> None:
    """The same as in its process; while it is lost it is not waited for, nor told of again."""
    local = LocalSettings(model=str(tiny_model), database=tmp_path / "chat.db")
    told: list[str] = []

    async def body(server: Server) -> None:
        service: ChatClient = server.host.service("local")
        async with (
            flapping_proxy(server.url, iter([])) as proxy,
            AsyncChatClient(proxy.url, tell=told.append) as client,
        ):
            conversation = await client.create_conversation("be brief")
            seen = await warmth(client, conversation)
            assert seen == await warmth(service, conversation)
            assert seen.tokens
            proxy.target = None
            for task in list(proxy.tasks):
                task.cancel()
            await settled(lambda: client.is_lost)
            assert await warmth(client, conversation, seen) is seen

    serve_sockets(body, local)
    assert told == []
