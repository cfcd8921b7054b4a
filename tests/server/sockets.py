"""A whole server to connect to, for the tests: a real engine, a real port, and a client of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from radixchat.server.app import app_of
from radixchat.server.auth import SUBPROTOCOL
from radixchat.server.edge import Edge
from radixchat.server.host import ChatHost
from radixchat.server.keys import authenticator
from radixchat.server.listener import Listener, bind, url_of
from radixchat.server.local import LocalSettings, open_host
from radixchat.server.serve_settings import ServeSettings

Event = dict[str, Any]
TERMINAL = ("response.completed", "response.incomplete", "response.failed")
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where a WebSocket is served."""

    url: str

    @asynccontextmanager
    async def client(self, *, hello: bool = True, **options: Any) -> AsyncIterator[Client]:
        """A client that is connected; hello: one that knows our events."""
        subprotocols = [Subprotocol(SUBPROTOCOL)] if hello else None
        async with connect(
            self.url, subprotocols=subprotocols, compression=None, proxy=None, **options
        ) as connection:
            client = Client(connection)
            if hello:
                client.hello = await client.next("server.hello")
            yield client


@dataclass(frozen=True, slots=True)
class Server(Address):
    """A server in this process."""

    edge: Edge
    host: ChatHost


@asynccontextmanager
async def open_server(
    local: LocalSettings,
    settings: ServeSettings | None = None,
    prepare: Callable[[list[socket.socket]], list[socket.socket]] = list,
) -> AsyncIterator[Server]:
    """A server that listens; left as `serve` leaves one, without its waiting.

    prepare: what is to be done to its listening sockets.
    """
    settings = settings or ServeSettings(port=0)
    sockets = prepare(bind(settings))
    edge = Edge(settings)
    listener = Listener(app_of(edge), settings, sockets)
    await listener.start()
    try:
        async with open_host(replace(local, threads=1)) as host:
            edge.open(host, authenticator(host, settings))
            try:
                yield Server(socket_url(url_of(settings, sockets)), edge, host)
            finally:
                edge.departure.drain(0)
                edge.departure.close()
                await host.drain(0)
                await listener.stop()
    finally:
        await listener.stop()


def socket_url(url: str) -> str:
    """The WebSocket of the server at an address of HTTP."""
    return url.replace("http", "ws", 1) + "/v1/responses"


def serve_sockets(
    body: Callable[[Server], Awaitable[None]],
    local: LocalSettings,
    settings: ServeSettings | None = None,
) -> None:
    """Run `body` against a server that is open for its duration."""

    async def main() -> None:
        async with open_server(local, settings) as server:
            await asyncio.wait_for(body(server), 300)

    asyncio.run(main())


class Client:
    """A client over a socket: sends events, keeps what comes until somebody wants it."""

    def __init__(self, connection: ClientConnection) -> None:
        self.socket = connection
        self.hello: Event = {}
        self.seen: list[Event] = []
        self._kept: list[Event] = []
        # A principal's event ids are one namespace, whatever socket they come from.
        self._name, self._ids = uuid.uuid4().hex[:8], itertools.count()

    async def send(self, type_: str, **fields: Any) -> str:
        """Send an event; returns its id."""
        event_id = fields.pop("event_id", None) or f"{self._name}-{next(self._ids)}"
        await self.socket.send(json.dumps({"type": type_, "event_id": event_id, **fields}))
        return event_id

    async def ask(self, type_: str, **fields: Any) -> Event:
        """Send an event, and return its reply or its error."""
        event_id = await self.send(type_, **fields)
        return await self.until(
            lambda event: event_id in (event.get("in_reply_to"), event.get("event_id"))
        )

    async def next(self, *types: str) -> Event:
        """The next event of these types; of any, where none is named."""
        return await self.until(lambda event: not types or event["type"] in types)

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        """The next event that is wanted; the others are kept for later."""
        for index, event in enumerate(self._kept):
            if wanted(event):
                return self._kept.pop(index)
        while True:
            event = await self.receive()
            if wanted(event):
                return event
            self._kept.append(event)

    def forget(self) -> None:
        """Drop what came and nobody wanted."""
        self._kept.clear()

    async def receive(self) -> Event:
        """What comes next from the socket."""
        event: Event = json.loads(await asyncio.wait_for(self.socket.recv(), PATIENCE_S))
        self.seen.append(event)
        return event

    async def begin(self, text: str = "Hi", **fields: Any) -> str:
        """Ask for an answer; returns the response's id once it has begun."""
        x = {"seed": 1, **fields.pop("x", {})}
        if self.hello:
            created = await self.ask("response.create", input=text, x=x, **fields)
        else:
            await self.send("response.create", input=text, x=x, **fields)
            created = await self.next("response.created", "error")
        assert created["type"] == "response.created", created
        response: str = created["response"]["id"]
        return response

    async def end(self, response: str) -> Event:
        """The response's terminal event."""
        return await self.until(
            lambda event: event["type"] in TERMINAL and event["response"]["id"] == response
        )

    async def closed(self) -> tuple[int, str]:
        """Code and reason of the close frame, once it has come; what comes before is read."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self.receive()
        frame = self.socket.protocol.close_rcvd
        assert frame is not None, "the connection ended without a close frame"
        return frame.code, frame.reason

    async def hang_up(self) -> None:
        """Leave without a word: no close frame."""
        self.socket.transport.abort()
        with contextlib.suppress(Exception):
            await self.socket.wait_closed()


@asynccontextmanager
async def held(server: Server) -> AsyncIterator[None]:
    """The engine does nothing while the block runs."""
    release = threading.Event()
    holding = asyncio.ensure_future(server.host.engine.ask(lambda _: release.wait(PATIENCE_S)))
    try:
        yield
    finally:
        release.set()
        await holding


async def settled(is_so: Callable[[], bool]) -> None:
    """Return once it is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.005)


def text_of(terminal: Event) -> str:
    """The answer's text in a terminal event."""
    return "".join(
        part["text"] for item in terminal["response"]["output"] for part in item["content"]
    )


def held_to_its_numbers(seen: list[Event], response: str, lane: str | None = None) -> str:
    """The text of a response that was read once from its beginning, held to the protocol.

    Numbers rise by one but where deltas were merged, offsets join, there is one terminal event.
    """
    item = "msg_" + response.removeprefix("resp_")
    events = [
        event
        for event in seen
        if (
            "sequence_number" in event
            and response in (event.get("response", {}).get("id"), event.get("response_id"))
        )
        or item in (event.get("item_id"), event.get("item", {}).get("id"))
    ]
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    expected, text = 0, ""
    for event in events:
        number, extras = event["sequence_number"], event.get("x", {})
        assert extras.get("first_sequence_number", number) == expected, event
        assert event.get("stream_id") == lane, event
        expected = number + 1
        if event["type"] == "response.output_text.delta":
            assert extras["offset"] == len(text), event
            text += event["delta"]
    assert [event["type"] in TERMINAL for event in events] == [False] * (len(events) - 1) + [True]
    assert text == text_of(events[-1])
    return text
