"""One WebSocket client: its events come in, and it is told how the connection ends.

    reader ──► SocketCommands ──► outbox ──► the one writer

Owns these tasks and the count of invalid messages. A command's failure is an event, and the
connection stays; only what the reader, the writer or the server's departure returns closes it.
"""

from __future__ import annotations

import asyncio
import logging

from starlette.websockets import WebSocket, WebSocketDisconnect

from radixchat.server.api_error import ApiError
from radixchat.server.decode import decode_client_event
from radixchat.server.edge import Edge, principal_of
from radixchat.server.outbox import (
    INTERNAL_ERROR,
    NO_STATUS,
    POLICY_VIOLATION,
    UNAUTHORIZED,
    UNSUPPORTED_DATA,
    Closing,
    Outbox,
    WireEvent,
)
from radixchat.server.service import ChatService
from radixchat.server.socket_commands import SocketCommands
from radixchat.server.socket_hello import draining_event
from radixchat.server.wire_client_events import ClientEvent
from radixchat.server.wire_server_events import ServerHeartbeat
from radixchat.server.wire_value import wire_dict

_LOGGER = logging.getLogger(__name__)

# From so many bytes on, a message is read on a thread of its own: a mebibyte takes milliseconds.
LARGE = 64 << 10


class SocketConnection:
    """One accepted WebSocket."""

    def __init__(
        self,
        websocket: WebSocket,
        edge: Edge,
        service: ChatService,
        key: str | None,
        *,
        extensions: bool,
    ) -> None:
        """key: what the client came in with. extensions: it said hello in the handshake."""
        self._websocket = websocket
        self._edge = edge
        self._key, self._principal = key, service.principal
        self._limits = edge.settings.limits
        self._outbox = Outbox(self._send, self._limits, edge.metrics, self._heartbeat)
        is_operator = principal_of(websocket).is_operator
        self._commands = SocketCommands(
            service, edge, self._outbox, extensions=extensions, is_operator=is_operator
        )

    async def serve(self) -> Closing:
        """Until either side ends it. Says how; what is running goes on for its grace."""
        works = {
            "writer": self._outbox.run(),
            "reader": self._read(),
            "commands": self._commands.run(),
            "departure": self._depart(),
            "key": self._lose_key(),
        }
        tasks = {asyncio.create_task(work, name=name) for name, work in works.items()}
        try:
            return await self._until_closed(tasks)
        except Exception:
            _LOGGER.exception("a connection failed")
            return Closing(INTERNAL_ERROR, "an error of the server's own")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._commands.stop()
            self._outbox.close()

    async def leave(self) -> None:
        """Give up what the client cannot come back for; after `serve`."""
        await self._commands.leave()
        self._outbox.close()  # what has come since it had no writer any more

    async def _until_closed(self, tasks: set[asyncio.Task[Closing]]) -> Closing:
        """How the writer ends, which sends the rest first; or how the peer has ended it."""
        if self._commands.extensions:
            await self._commands.greet()
        waiting = tasks
        while True:
            ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                closing = task.result()
                if closing.by_peer or task.get_name() == "writer":
                    return closing
                self._outbox.finish(closing)

    async def _send(self, text: str) -> None:
        """Raises ConnectionError where the client has gone; Starlette's error is no OSError."""
        try:
            await self._websocket.send_text(text)
        except WebSocketDisconnect as gone:
            raise ConnectionError("the client has gone") from gone

    async def _read(self) -> Closing:
        """Take the client's events until it must not send more, or has gone."""
        errors = 0
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return Closing(message.get("code") or NO_STATUS, by_peer=True)
            text = message.get("text")
            if text is None:
                return Closing(UNSUPPORTED_DATA, "a message is text: one JSON event")
            try:
                event = await self._decode(text)
            except ApiError as error:
                errors += 1
                await self._commands.refuse(error)
                if errors >= self._limits.max_errors:
                    return Closing(POLICY_VIOLATION, f"{errors} invalid messages in a row")
                continue
            errors = 0
            try:
                await self._commands.take(event)
            except ApiError as error:
                await self._commands.refuse(error, event)

    async def _decode(self, text: str) -> ClientEvent:
        """Raises ApiError."""
        size = len(text) if text.isascii() else len(text.encode())
        limit, strict = self._limits.max_message_bytes, self._edge.settings.strict
        if size > limit:
            raise ApiError(
                413,
                "message_too_big",
                f"the message has {size} bytes; allowed: {limit}",
                details={"bytes": size, "max_message_bytes": limit},
            )
        if size > LARGE:
            return await asyncio.to_thread(decode_client_event, text, strict=strict)
        return decode_client_event(text, strict=strict)

    async def _depart(self) -> Closing:
        """Tell that the server leaves, and close when it does."""
        departure = self._edge.departure
        await departure.draining.wait()
        if self._commands.extensions and not departure.closing.is_set():
            await self._outbox.put(wire_dict(draining_event(departure)))
        await departure.closing.wait()
        return Closing(departure.code, departure.reason)

    async def _lose_key(self) -> Closing:
        """Close when the key is revoked, or the first one made while there was none."""
        await self._edge.auth.withdrawn(self._key, self._principal)
        return Closing(UNAUTHORIZED, "this key is not valid any more")

    def _heartbeat(self) -> WireEvent | None:
        if not self._commands.extensions:
            return None  # a plain client would not know it; the protocol's pings keep it connected
        return wire_dict(ServerHeartbeat(responses=self._commands.followed))
