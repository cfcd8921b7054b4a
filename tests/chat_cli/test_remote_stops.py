"""Answers at a server that are stopped, left, or lose their reader: what stays, what goes on."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
import subprocess
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.chat_cli.answer_request import AnswerRequest
from radixchat.chat_cli.async_client import AsyncChatClient
from radixchat.chat_cli.backoff import Backoff
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import (
    OutputTextDelta,
    PrefillProgress,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseOptions,
)
from radixchat.tests.chat_cli.chat_terminal import COMMAND, ChatTerminal
from radixchat.tests.chat_cli.test_url import wait_for_a_part
from radixchat.tests.server.server_process import serving
from radixchat.tests.server.sites import break_down
from radixchat.tests.server.sockets import Server, serve_sockets, settled
from radixchat.tests.slow_steps import slow_command, slowed

SHORT = ResponseOptions(temperature=0.0, seed=1, max_output_tokens=4)
# At two milliseconds a step, longer than any test waits.
ENDLESS = replace(SHORT, max_output_tokens=3900, speculate=False, ignore_eos=True)
STEP_S = 0.002


@pytest.fixture
def local(tiny_model: Path, tmp_path: Path) -> LocalSettings:
    return LocalSettings(model=str(tiny_model), database=tmp_path / "chat.db")


async def end_of(events: AsyncGenerator[ResponseEvent]) -> ResponseDone:
    """The last event."""
    done = None
    async for event in events:
        done = event
    assert isinstance(done, ResponseDone)
    return done


async def some_of(events: AsyncGenerator[ResponseEvent]) -> ResponseCreated:
    """Read on until there is some text; its first event."""
    created = None
    async for event in events:
        if isinstance(event, ResponseCreated):
            created = event
        if isinstance(event, OutputTextDelta):
            break
    assert created is not None
    return created


def test_an_answer_that_is_stopped_is_what_was_shown(local: LocalSettings) -> None:
    """Asked to stop three times at once it ends once; the next turn is answered from its cache."""

    async def body(server: Server) -> None:
        async with AsyncChatClient(server.url) as client:
            conversation = await client.create_conversation("be brief")
            events = client.send(conversation, "one", ENDLESS)
            text, ends = "", list[ResponseDone]()
            async for event in events:
                match event:
                    case OutputTextDelta():
                        if not text:
                            await asyncio.gather(*3 * [client.cancel(event.response)])
                        text += event.delta
                    case ResponseDone():
                        ends.append(event)
            (done,) = ends
            assert (done.status, done.reason) == ("incomplete", "interrupted")
            assert done.output_text == text
            stored = (await client.messages(conversation))[-1]
            assert (stored.text, stored.status) == (text, "interrupted")
            after = await end_of(client.send(conversation, "two", SHORT))
            known = done.usage.input_tokens + (done.usage.kept_tokens or 0)
            assert after.usage.input_tokens > known
            assert after.usage.cached_tokens >= known - 1

    with slowed(STEP_S):
        serve_sockets(body, local)


def test_a_long_prompt_is_stopped_between_its_parts(local: LocalSettings) -> None:
    """Before its first token there is no answer, and the rest of the prompt is not computed."""

    async def body(server: Server) -> None:
        asking = AnswerRequest(progress=True)
        async with AsyncChatClient(server.url, request=asking) as client:
            conversation = await client.create_conversation()
            done, progress, response = None, list[PrefillProgress](), ""
            async for event in client.send(conversation, "many words " * 300, ENDLESS):
                match event:
                    case ResponseCreated():
                        response = event.response
                    case PrefillProgress():
                        progress.append(event)
                        await client.cancel(response)
                    case ResponseDone():
                        done = event
            assert done is not None
            assert (done.reason, done.output_text) == ("interrupted", "")
            assert progress[-1].processed < progress[-1].total
            assert not server.host.running

    with slowed(0.2):
        serve_sockets(body, local)


def test_leaving_in_the_middle_of_leaving(local: LocalSettings) -> None:
    """Whoever is cancelled while they wait for the end that they asked for has asked for it."""

    async def body(server: Server) -> None:
        async with AsyncChatClient(server.url) as client:
            conversation = await client.create_conversation()
            events = client.send(conversation, "one", ENDLESS)
            await some_of(events)
            leaving = asyncio.ensure_future(events.aclose())
            await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.wait({leaving})
            await settled(lambda: not server.host.running)
            assert not client._exchanges
            assert (await end_of(client.send(conversation, "two", SHORT))).response is not None

    with slowed(STEP_S):
        serve_sockets(body, local)


def test_an_engine_that_fails_in_the_middle(local: LocalSettings) -> None:
    """The answer has an end that says so, with what there was."""

    async def body(server: Server) -> None:
        async with AsyncChatClient(server.url) as client:
            events = client.send(await client.create_conversation(), "one", ENDLESS)
            await some_of(events)
            with contextlib.suppress(Exception):  # it fails while it is being asked
                await server.host.engine.ask(break_down)
            done = await end_of(events)
            assert done.status == "failed"
            assert done.output_text
            assert done.error is not None
            assert done.error.code == "engine_failed"

    with slowed(STEP_S):
        serve_sockets(body, local)


def test_a_reader_that_crashes(local: LocalSettings) -> None:
    """Its answer goes on, and is whole for whoever comes next; their turn waits for its end."""
    whole = replace(ENDLESS, max_output_tokens=300)

    async def body(server: Server) -> None:
        conversation = ""
        async with AsyncChatClient(server.url) as crashing:
            conversation = await crashing.create_conversation()
            events = crashing.send(conversation, "one", whole)
            await some_of(events)
            connection = await crashing._link.connection()
            connection._socket.transport.abort()
            async with AsyncChatClient(server.url, backoff=Backoff(busy_s=60)) as client:
                done = await end_of(client.send(conversation, "two", SHORT))
                users = [m.text for m in await client.messages(conversation) if m.role == "user"]
                assert users == ["one", "two"]
                assert done.usage.cached_tokens > 300, "it was as long as it was asked to be"
            await events.aclose()

    with slowed(STEP_S):
        serve_sockets(body, local)


def messages_of(database: Path) -> list[tuple[str, str]]:
    """Role and status of every message, in the order in which they were stored."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT role, status FROM message ORDER BY rowid")
        return [(role, status) for role, status in rows]


@pytest.mark.slow
def test_ctrl_c_at_a_prompt(tiny_model: Path, tmp_path: Path) -> None:
    """Once stops the answer, twice leaves, at an empty prompt it says how to leave; all is kept."""
    database = tmp_path / "data" / "sessions.db"
    with serving(tiny_model, tmp_path, command=slow_command(0.02)) as server:
        flags = ("--url", server.url, "--max-tokens", "3000", "--no-speculation")
        with ChatTerminal("chat", *flags) as terminal:
            terminal.wait_for(r"> ?\Z")
            terminal.enter("first")
            terminal.wait_for(r"> first\n\s*[^\s…]")
            terminal.type("\x03")
            terminal.wait_for("stopped by you")
            terminal.wait_for(r"> ?\Z")
            terminal.enter("second")
            terminal.wait_for(r"> second\n\s*[^\s…]")
            terminal.type("\x03")
            terminal.wait_for("stopped by you", times=2)
            terminal.type("\x03")
            assert terminal.exit_code() == 130
            assert "Traceback" not in terminal.text
        with ChatTerminal("chat", *flags, "-c") as terminal:
            terminal.wait_for("2 turns")
            terminal.wait_for(r"> ?\Z")
            terminal.enter("third")
            terminal.wait_for(r"> third\n\s*[^\s…]")
            terminal.process.kill(signal.SIGHUP)
            assert terminal.exit_code() == 129
    assert messages_of(database) == 3 * [("user", "complete"), ("assistant", "interrupted")]


@pytest.mark.slow
def test_ctrl_c_at_one_question(tiny_model: Path, tmp_path: Path) -> None:
    """130, no traceback, and the row is kept."""
    database = tmp_path / "data" / "sessions.db"
    with serving(tiny_model, tmp_path, command=slow_command(0.02)) as server:
        asking = subprocess.Popen(
            [*COMMAND, "chat", "--url", server.url, "--max-tokens", "3000", "hello"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for_a_part(database, asking)
        asking.send_signal(signal.SIGINT)
        out, err = asking.communicate(timeout=60)
        assert asking.returncode == 130
        assert out
        assert b"Traceback" not in err
    assert messages_of(database) == [("user", "complete"), ("assistant", "interrupted")]
