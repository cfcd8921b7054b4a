"""An ASGI server for one request, for the tests: messages in, messages out, no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.types import ASGIApp, Message

Headers = Mapping[str, str]


def http_scope(method: str, path: str, headers: Headers, query: str = "") -> dict[str, Any]:
    """The head of a request as a server gives it to an app."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(k.lower().encode(), v.encode()) for k, v in headers.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
    }


def socket_scope(path: str) -> dict[str, Any]:
    """The head of a WebSocket's handshake."""
    scope = http_scope("GET", path, {})
    del scope["method"]
    return {**scope, "type": "websocket", "scheme": "ws", "subprotocols": []}


async def drive(app: ASGIApp, scope: dict[str, Any], incoming: Sequence[Message]) -> list[Message]:
    """What the app sends; once it has received all of `incoming` it waits for ever."""
    waiting, sent = list(incoming), []

    async def receive() -> Message:
        if waiting:
            return waiting.pop(0)
        await asyncio.Event().wait()
        raise AssertionError("nothing ends this wait")

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


def request_body(body: bytes = b"") -> list[Message]:
    """A request's body in one piece."""
    return [{"type": "http.request", "body": body, "more_body": False}]
