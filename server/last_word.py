"""`LastWord`: no request over HTTP is cut without a word when the server ends.

Stored answers have ended by then; what still runs is not stored, or asks slowly. Its client gets an
error instead of the rest, as the answer or as a stream's last event. Knows no route.
"""

from __future__ import annotations

import asyncio
import json

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from radixchat.server.api_error import ApiError
from radixchat.server.departure import Departure
from radixchat.server.error_response import error_response
from radixchat.server.metrics import Metrics

# For those that have ended, and only have to say so.
GRACE_SECONDS = 1.0
_RETRY_MS = 5000
_EVENTS = "text/event-stream"


class LastWord:
    """ASGI: ends a request a moment after the departure has begun to close everything."""

    def __init__(self, app: ASGIApp, departure: Departure, metrics: Metrics) -> None:
        self._app = app
        self._departure = departure
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve it to its end, or to the server's."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        serving = asyncio.ensure_future(self._app(scope, receive, answer.send))
        closing = asyncio.create_task(self._departure.closing.wait())
        try:
            await asyncio.wait({serving, closing}, return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                await asyncio.wait({serving}, timeout=GRACE_SECONDS)
            if serving.done():
                serving.result()
                return
        finally:
            closing.cancel()
            if not serving.done():
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
        await self._cut(answer, scope, receive, send)

    async def _cut(self, answer: _Answer, scope: Scope, receive: Receive, send: Send) -> None:
        error = ApiError(
            503,
            "server_overloaded",
            "the server is stopping; this answer was cut short",
            details={"retry_after_ms": _RETRY_MS},
        )
        if not answer.has_begun:
            await error_response(error, self._metrics)(scope, receive, send)
        elif answer.is_stream:
            self._metrics.refused(error.code)
            word = f"data: {json.dumps(error.body())}\n\n".encode()
            await send({"type": "http.response.body", "body": word, "more_body": False})


class _Answer:
    """What has been sent of an answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False
        self.is_stream = False

    async def send(self, message: Message) -> None:
        """Pass it on."""
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = Headers(raw=message.get("headers", []))
            self.is_stream = headers.get("content-type", "").startswith(_EVENTS)
        await self._send(message)
