"""One WebSocket to a server, from its handshake to its end.

Owns which exchange each event belongs to: that of the event id it answers, or else of its response.
Knows no retries: what ends it is a `ConnectionLost` to everybody who waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidProxy,
    InvalidURI,
)
from websockets.typing import Subprotocol

from radixchat.chat_cli.connection_loss import ConnectionLost, closed, not_opened
from radixchat.chat_cli.inbox import Event, Inbox
from radixchat.chat_cli.server_address import ServerAddress
from radixchat.server.event_reader import ProtocolError, error_of, response_id_of
from radixchat.server.message import check_text
from radixchat.server.protocol import InvalidRequest, KeyRefused, ServerUnreachable

SUBPROTOCOL = Subprotocol("radixchat.v1")
# Replies hold whole conversations, and answers with the log-probabilities of every token.
MAX_REPLY_BYTES = 64 << 20
OPEN_SECONDS = 10.0
CLOSE_SECONDS = 1.0
_NO_PROGRESS = frozenset({"server.hello", "server.heartbeat", "server.draining"})


class ServerConnection:
    """A connection that has said hello; `open` makes one."""

    def __init__(self, socket: ClientConnection, address: ServerAddress, hello: Event) -> None:
        self.hello = hello
        self.loss: ConnectionLost | None = None
        self._socket = socket
        self._address = address
        self._limit: int = hello["limits"]["max_message_bytes"]
        self._inboxes: dict[str, Inbox] = {}
        self._hint_s = 0.0
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, address: ServerAddress, key: str | None, heard: Callable[[], None]
    ) -> ServerConnection:
        """Connect, and hear the server's hello. heard: called with every event of an exchange.

        Raises ConnectionLost.
        """
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        try:
            socket = await connect(
                address.socket,
                additional_headers=headers,
                subprotocols=[SUBPROTOCOL],
                compression=None,
                proxy=None if address.is_local else True,
                open_timeout=OPEN_SECONDS,
                close_timeout=CLOSE_SECONDS,
                max_size=MAX_REPLY_BYTES,
            )
        except (OSError, InvalidHandshake, InvalidURI, InvalidProxy, ImportError) as failure:
            raise not_opened(failure, address) from failure
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                connection = cls(socket, address, await _hello(socket, address))
        except TimeoutError as failure:
            await socket.close()
            raise not_opened(failure, address) from failure
        except ConnectionClosed as failure:
            raise closed(failure, address, 0.0) from failure
        except BaseException:
            await socket.close()
            raise
        connection._reading = asyncio.create_task(connection._read(heard))
        return connection

    def listen(self, *names: str) -> Inbox:
        """What is sent in reply to these event ids, or about these responses."""
        inbox = Inbox()
        for name in names:
            self._inboxes[name] = inbox
        if self.loss is not None:
            inbox.lose(self.loss)
        return inbox

    def forget(self, inbox: Inbox) -> None:
        """Nobody listens any more."""
        self._inboxes = {name: box for name, box in self._inboxes.items() if box is not inbox}

    async def send(self, event: Event) -> None:
        """Send one event. Raises ConnectionLost; InvalidRequest of one that cannot be sent."""
        text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
        check_text("the request", text)
        if len(text) > self._limit or len(text.encode()) > self._limit:
            size = len(text.encode())
            message = f"the message has {size:,} bytes; the server takes {self._limit:,} at most"
            raise InvalidRequest(message)
        if self.loss is not None:
            raise self.loss
        try:
            await self._socket.send(text)
        except ConnectionClosed as failure:
            raise closed(failure, self._address, self._hint_s) from failure

    async def ask(self, *events: dict[str, Any]) -> Event:
        """Send events, and return the first reply. Raises ConnectionLost, and what is refused."""
        inbox = self.listen(*(event["event_id"] for event in events))
        try:
            for event in events:
                await self.send(event)
            reply = await inbox.get()
        finally:
            self.forget(inbox)
        if reply.get("type") == "error":
            raise error_of(reply)
        return reply

    async def close(self) -> None:
        """Say goodbye."""
        await self._socket.close()
        if self._reading is not None:
            await asyncio.wait({self._reading})

    async def _read(self, heard: Callable[[], None]) -> None:
        """Until the connection ends; then everybody who waits hears of it."""
        try:
            while True:
                event = json.loads(await self._socket.recv())
                if self._deliver(event):
                    heard()
        except ConnectionClosed as failure:
            loss = closed(failure, self._address, self._hint_s)
        except (ValueError, TypeError, AttributeError, KeyError) as failure:
            error = ProtocolError(f"{self._address.shown} sent what is no event: {failure!r}")
            loss = ConnectionLost(error, is_final=True)
            await self._socket.close()
        self.loss = loss
        for inbox in set(self._inboxes.values()):
            inbox.lose(loss)

    def _deliver(self, event: Event) -> bool:
        """Give it to whoever it is for; whether somebody got it, and has got on by it."""
        if event["type"] == "server.draining":
            self._hint_s = event["retry_after_ms"] / 1000
        if event["type"] in _NO_PROGRESS:
            return False
        response = response_id_of(event)
        inbox = None
        for name in (event.get("in_reply_to"), event.get("event_id"), response):
            if inbox is None and name is not None:
                inbox = self._inboxes.get(name)
        if inbox is None:
            return False
        if response is not None:
            self._inboxes[response] = inbox
        inbox.put(event)
        return bool(event["type"] != "response.resumed")


async def _hello(socket: ClientConnection, address: ServerAddress) -> Event:
    """The server's first event. Raises ConnectionLost where it is another."""
    if socket.subprotocol != SUBPROTOCOL:
        message = f"{address.shown} is no radixchat server: it does not speak {SUBPROTOCOL}"
        raise ConnectionLost(ServerUnreachable(message), is_final=True)
    event: Any = None
    with contextlib.suppress(ValueError):
        event = json.loads(await socket.recv())
    match event:
        case {"type": "server.hello", "limits": {"max_message_bytes": int()}}:
            return dict(event)
        case {"type": "auth_required"}:
            error = KeyRefused(f"{address.shown}: a key is needed")
            raise ConnectionLost(error, is_final=True)
        case {"type": "error"}:
            refusal = error_of(event)
            hint_s = getattr(refusal, "retry_after_ms", 0) / 1000
            raise ConnectionLost(refusal, retry_after_s=hint_s)
        case _:
            message = f"{address.shown} does not begin with a hello"
            raise ConnectionLost(ServerUnreachable(message), is_final=True)
