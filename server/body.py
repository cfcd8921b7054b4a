"""Bounds of a request's body: its size, and the time until all of it is there.

Owns the counting. Knows no route: a route reads its body as ever, and what is too much is refused
there, in the middle of the reading.
"""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from radixchat.server.api_error import ApiError
from radixchat.server.error_response import error_response
from radixchat.server.limits import Limits
from radixchat.server.metrics import Metrics


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
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self._limits.max_message_bytes:
            await error_response(self._too_big(), self._metrics)(scope, receive, send)
            return
        await self._app(scope, self._bounded(receive), send)

    def _bounded(self, receive: Receive) -> Receive:
        """The messages of the body, counted; what comes after it (a disconnect) as it is."""
        deadline = asyncio.get_running_loop().time() + self._limits.body_seconds
        size = 0
        is_complete = False

        async def bounded() -> Message:
            nonlocal size, is_complete
            if is_complete:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise ApiError(
                    408,
                    "request_timeout",
                    f"the body was not there after {self._limits.body_seconds:g} s",
                    details={"limit_s": self._limits.body_seconds},
                ) from None
            size += len(message.get("body", b""))
            if size > self._limits.max_message_bytes:
                raise self._too_big()
            is_complete = not message.get("more_body", False)
            return message

        return bounded

    def _too_big(self) -> ApiError:
        limit = self._limits.max_message_bytes
        return ApiError(
            413,
            "message_too_big",
            f"a body may have {limit} bytes",
            details={"max_bytes": limit},
        )
