"""Bounds of a request's body: its size, and the time until all of it is there.

Owns the counting. Knows no route: a route reads its body as ever, and what is too much is refused
there, in the middle of the reading. What still comes after a refusal is read for a moment and
dropped: closed at once, the connection would be reset, and the client might never see the answer.
"""

from __future__ import annotations

import asyncio
import contextlib

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from radixchat.server.api_error import ApiError
from radixchat.server.error_response import error_response
from radixchat.server.limits import Limits
from radixchat.server.metrics import Metrics

LINGER_SECONDS = 1.0
_ANSWER = "http.response.body"


class BoundedBody:
    """ASGI: an HTTP request's body is at most so long, in bytes and in seconds."""

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on with a bounded `receive`; one whose length is told and too much is refused."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(self._limits, receive, send)
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self._limits.max_message_bytes:
            answer = error_response(body.refuse_size(), self._metrics)
            await answer(scope, receive, body.send)
        else:
            await self._app(scope, body.receive, body.send)


class _Body:
    """One request's body on its way in, counted; and, after a refusal, its rest."""

    def __init__(self, limits: Limits, receive: Receive, send: Send) -> None:
        self._limits = limits
        self._receive = receive
        self._send = send
        self._deadline = asyncio.get_running_loop().time() + limits.body_seconds
        self._size = 0
        self._is_complete = False
        self._is_refused = False

    async def receive(self) -> Message:
        """The next message; what comes after the body (a disconnect) as it is."""
        if self._is_complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            self._is_refused = True
            seconds = self._limits.body_seconds
            why = f"the body was not there after {seconds:g} s"
            raise ApiError(408, "request_timeout", why, details={"limit_s": seconds}) from None
        self._size += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        if self._size > self._limits.max_message_bytes:
            raise self.refuse_size()
        return message

    async def send(self, message: Message) -> None:
        """Pass on the answer; after the last of a refusal the rest of the body is dropped first."""
        if not self._is_refused or message["type"] != _ANSWER or message.get("more_body", False):
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while not self._is_complete:
                    dropped = await self._receive()
                    self._is_complete = not dropped.get("more_body", False)
        await self._send({"type": _ANSWER, "body": b"", "more_body": False})

    def refuse_size(self) -> ApiError:
        """Why it is too long; from here on its rest is dropped."""
        self._is_refused = True
        limit = self._limits.max_message_bytes
        message = f"a body may have {limit} bytes"
        return ApiError(413, "message_too_big", message, details={"max_bytes": limit})
