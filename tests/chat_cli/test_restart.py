"""A server that is restarted, politely or not, while a client reads an answer: the same answer."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from radixchat.chat_cli.async_client import AsyncChatClient
from radixchat.chat_cli.backoff import Backoff
from radixchat.server import gate, host, socket_hello
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import (
    OutputTextDelta,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseOptions,
    ServerDraining,
)
from radixchat.server.serve import drain
from radixchat.server.serve_settings import ServeSettings
from radixchat.tests.server.server_process import ServerProcess, free_port, serving
from radixchat.tests.server.sockets import Server, open_server
from radixchat.tests.slow_steps import slow_command, slowed

QUICK = Backoff(first_s=0.01, most_s=0.1, patience_s=60)
SAMPLED = ResponseOptions(temperature=1.5, seed=3, max_output_tokens=250, speculate=False)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server in this process that leaves says to come back in a moment, not in seconds."""
    monkeypatch.setattr(socket_hello, "RECONNECT_AFTER_MS", 50)
    monkeypatch.setattr(gate, "RECONNECT_AFTER_MS", 50)
    monkeypatch.setattr(host, "DRAINING_RETRY_MS", 50)


@pytest.fixture
def local(tiny_model: Path, tmp_path: Path) -> LocalSettings:
    return LocalSettings(model=str(tiny_model), database=tmp_path / "chat.db")


class Reader:
    """Reads one answer, and holds it to the contract: a beginning, each character once, an end."""

    def __init__(self, client: AsyncChatClient, conversation: str, text: str) -> None:
        self.conversation = conversation
        self.response = ""
        self.text = ""
        self.done: ResponseDone | None = None
        self._events = client.send(conversation, text, SAMPLED)

    async def read(self, until: Callable[[ResponseEvent], bool] = lambda _: False) -> None:
        """To the end, or until an event is such."""
        async for event in self._events:
            assert self.done is None
            match event:
                case ResponseCreated():
                    assert not self.response
                    self.response = event.response
                case OutputTextDelta():
                    assert event.offset == len(self.text)
                    self.text += event.delta
                case ResponseDone():
                    self.done = event
            if until(event):
                return

    async def end(self) -> ResponseDone:
        """Its end, which has the text that came."""
        await self.read()
        assert self.done is not None
        assert self.done.output_text == self.text
        return self.done


def is_text(event: ResponseEvent) -> bool:
    return isinstance(event, OutputTextDelta)


def is_beginning(event: ResponseEvent) -> bool:
    return isinstance(event, ResponseCreated)


async def whole_answer(client: AsyncChatClient) -> str:
    """Of a run that nothing interrupts."""
    done = await Reader(client, await client.create_conversation("be brief"), "go on").end()
    assert done.reason == "max_output_tokens"
    return done.output_text


@contextlib.asynccontextmanager
async def serving_here(local: LocalSettings, settings: ServeSettings) -> AsyncIterator[Server]:
    """A server in this process that ends politely: what runs is cut short, then sockets close."""
    async with open_server(local, settings) as server:
        yield server
        await drain(server.edge, server.host)


@contextlib.asynccontextmanager
async def restarting(
    local: LocalSettings, until: Callable[[ResponseEvent], bool]
) -> AsyncIterator[tuple[Reader, AsyncChatClient, ServeSettings, str]]:
    """A reader whose server ends politely at an event; and the whole text that it is to have."""
    settings = ServeSettings(port=free_port(), drain_timeout_s=0)

    async with contextlib.AsyncExitStack() as stack:
        first = contextlib.AsyncExitStack()
        server = await first.enter_async_context(serving_here(local, settings))
        client = await stack.enter_async_context(AsyncChatClient(server.url, backoff=QUICK))
        whole = await whole_answer(client)
        reader = Reader(client, await client.create_conversation("be brief"), "go on")
        with slowed(0.02):
            await reader.read(until)
            await first.aclose()
        yield reader, client, settings, whole


@pytest.mark.parametrize("until", [is_beginning, is_text])
def test_a_server_that_is_restarted(
    local: LocalSettings, until: Callable[[ResponseEvent], bool]
) -> None:
    """What a graceful end cuts short, before the first token or after, the next server goes on."""

    async def main() -> None:
        async with restarting(local, until) as (reader, client, settings, whole):
            reading = asyncio.create_task(reader.end())
            async with serving_here(local, settings):
                done = await reading
                assert done.output_text == whole
                assert (done.status, done.reason) == ("incomplete", "max_output_tokens")
                assert done.error is None
                assert done.conversation is not None
                assert (await client.messages(done.conversation))[-1].text == whole

    asyncio.run(asyncio.wait_for(main(), 300))


def test_a_server_that_stays_away(local: LocalSettings) -> None:
    """After the link's patience the partial answer stays, with the reason; not after a moment."""

    async def main() -> None:
        async with restarting(local, is_text) as (reader, client, _, whole):
            client._link.backoff = replace(QUICK, patience_s=0.3)
            done = await reader.end()
            assert whole.startswith(done.output_text.rstrip("\ufffd"))
            assert (done.status, done.reason) == ("incomplete", "server_shutdown")
            assert done.usage.output_tokens > 0, "the server's own last word"
            assert done.error is not None
            assert done.error.code == "server_unavailable"
            assert "is gone since" in done.error.message

    asyncio.run(asyncio.wait_for(main(), 300))


@pytest.mark.parametrize("how", ["stop_waiting", "cancel", "leave"])
def test_nobody_waits_for_ever(local: LocalSettings, how: str) -> None:
    """Ctrl-C while the server is away ends the answer with what there is."""

    async def main() -> None:
        async with restarting(local, is_text) as (reader, client, settings, whole):
            lost = asyncio.Event()
            client._link.tell = lambda _: lost.set()
            reading = asyncio.create_task(reader.end())
            await lost.wait()
            if how == "leave":
                reading.cancel()
                await asyncio.wait({reading})
            elif how == "cancel":
                await client.cancel(reader.response)
            else:
                client.stop_waiting()
            if how != "leave":
                done = await reading
                assert whole.startswith(done.output_text.rstrip("\ufffd"))
                assert (done.status, done.reason) == ("incomplete", "interrupted")
                assert done.error is not None
                assert "stopped waiting" in done.error.message
            async with serving_here(local, settings):
                messages = await client.messages(reader.conversation)
                assert messages[-1].status == "interrupted"
                assert messages[-1].text.startswith(reader.text)

    asyncio.run(asyncio.wait_for(main(), 300))


@pytest.mark.parametrize("waits", [True, False])
def test_a_question_to_a_server_that_leaves(local: LocalSettings, waits: bool) -> None:
    """It waits for the next server, and says so; or is refused to who does not want to wait."""
    settings = ServeSettings(port=free_port(), drain_timeout_s=0)

    async def main() -> None:
        told: list[str] = []
        is_told = asyncio.Event()

        def tell(text: str) -> None:
            told.append(text)
            is_told.set()

        async with contextlib.AsyncExitStack() as stack:
            first = contextlib.AsyncExitStack()
            server = await first.enter_async_context(serving_here(local, settings))
            client = await stack.enter_async_context(
                AsyncChatClient(server.url, backoff=QUICK, tell=tell)
            )
            whole = await whole_answer(client)
            reader = Reader(client, await client.create_conversation("be brief"), "go on")
            server.host.stop_accepting()
            reading = asyncio.create_task(reader.end())
            await is_told.wait()
            assert "is about to restart" in told[0]
            if not waits:
                client.stop_waiting()
                with pytest.raises(ServerDraining):
                    await reading
            await first.aclose()
            if waits:
                await stack.enter_async_context(serving_here(local, settings))
                assert (await reading).output_text == whole
                assert len(told) == 3, "it was lost, and came back"

    asyncio.run(asyncio.wait_for(main(), 300))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_restarted(
    tiny_model: Path, local: LocalSettings, tmp_path: Path, number: signal.Signals
) -> None:
    """Killed or told to leave, before the first token and then in the middle: the same text."""
    flags = ("--port", str(free_port()), "--drain-timeout", "0")
    told: list[str] = []
    # A first step that takes so long has no token before its server has heard the signal.
    interruptions = ((1.5, is_beginning), (0.02, lambda event: is_text(event) and len(told) == 2))

    async def undisturbed() -> str:
        async with (
            open_server(local) as server,
            AsyncChatClient(server.url, backoff=QUICK) as client,
        ):
            return await whole_answer(client)

    def end(server: ServerProcess) -> None:
        server.tell(number)
        assert server.code() == (0 if number == signal.SIGTERM else -number)

    async def main() -> None:
        whole = await undisturbed()
        with contextlib.ExitStack() as stack:

            async def serve(seconds: float) -> ServerProcess:
                command = slow_command(seconds)
                starting = serving(tiny_model, tmp_path, *flags, command=command)
                return await asyncio.to_thread(stack.enter_context, starting)

            server = await serve(interruptions[0][0])
            async with AsyncChatClient(server.url, backoff=QUICK, tell=told.append) as client:
                reader = Reader(client, await client.create_conversation("be brief"), "go on")
                for (_, until), (seconds, _) in pairwise((*interruptions, (0.0, is_beginning))):
                    await reader.read(until)
                    await asyncio.to_thread(end, server)
                    server = await serve(seconds)
                done = await reader.end()
                assert done.output_text == whole
                assert (done.reason, done.error) == ("max_output_tokens", None)
                assert len(told) == 4, "it was lost twice, and came back"
                messages = await client.messages(reader.conversation)
                assert [m.text for m in messages] == ["be brief", "go on", whole]

    asyncio.run(asyncio.wait_for(main(), 300))
