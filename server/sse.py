"""Server-sent events: `EventStream`, an answer that comes piece by piece over HTTP.

Owns the form of an event, the comments that keep a silent connection alive, and the end of a stream
whose reader goes away or stops reading. Knows no response: it sends what an iteration yields, and
closes that iteration whatever happens, so that whoever computes for it stops.

    source    ── dict, dict, ... ──►  data: {...}\\n\\n   ...   data: [DONE]
              ◄── aclose() ────────   client gone, or nothing read for so long
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from typing import Any, TypeVar

from starlette.types import Message, Receive, Scope, Send

from radixchat.server.wire_value import wire_json

_LOGGER = logging.getLogger(__name__)
T = TypeVar("T")

# Less than the idle time after which proxies give a connection up: 60 s and more.
HEARTBEAT_S = 15.0
HEARTBEAT = b": still there\n\n"
DONE = b"data: [DONE]\n\n"
CLIENT_GONE = 499  # nginx's status, of a client that did not wait; nobody reads it
_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would keep it until there is more
)


def sse(event: Mapping[str, Any], *, name: str | None = None) -> bytes:
    """One event's bytes; name: its `event` field."""
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {wire_json(event)}\n\n".encode()


class EventStream:
    """An ASGI response that sends what `source` yields, each element the bytes of whole events.

    stalled_s: how long a reader may take nothing; then its connection is given up.
    """

    def __init__(
        self,
        source: AsyncGenerator[bytes],
        *,
        stalled_s: float,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._source = source
        self._stalled_s = stalled_s
        self._heartbeat_s = heartbeat_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it all; returns early where nobody is left who reads."""
        await while_connected(receive, self._send(send))

    async def _send(self, send: Send) -> None:
        async with contextlib.aclosing(self._source):
            try:
                await self._put(
                    send, {"type": "http.response.start", "status": 200, "headers": _HEADERS}
                )
                async with contextlib.aclosing(self._with_heartbeats()) as chunks:
                    async for chunk in chunks:
                        await self._put(send, _body(chunk, more=True))
                await self._put(send, _body(b"", more=False))
            except _Stalled:
                # Without its last message the server closes the connection.
                _LOGGER.warning("a stream was not read for %g s: it ends", self._stalled_s)

    async def _put(self, send: Send, message: Message) -> None:
        """The server's `send` waits while its buffer is full."""
        try:
            async with asyncio.timeout(self._stalled_s):
                await send(message)
        except TimeoutError:
            raise _Stalled from None

    async def _with_heartbeats(self) -> AsyncGenerator[bytes]:
        coming: asyncio.Task[bytes] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(_next(self._source))
                await asyncio.wait({coming}, timeout=self._heartbeat_s)
                if not coming.done():
                    yield HEARTBEAT
                    continue
                ended, coming = coming, None
                try:
                    chunk = ended.result()
                except StopAsyncIteration:
                    return
                yield chunk
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})


class _Stalled(Exception):
    """Nobody reads what was sent."""


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """The outcome of a coroutine; it is cancelled where the client goes away, and that is None.

    The request's body has been read: what comes next is the end of the connection.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
        await asyncio.wait({working, leaving})
    return None if working.cancelled() else working.result()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _next(source: AsyncIterator[bytes]) -> bytes:
    return await anext(source)


def _body(chunk: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": chunk, "more_body": more}
