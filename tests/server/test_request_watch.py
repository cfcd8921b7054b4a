"""Tests of server/request_watch.py."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from radixchat.server.log_format import JsonLines
from radixchat.server.metrics import Metrics
from radixchat.server.request_watch import RequestWatch
from radixchat.tests.server.asgi import drive, http_scope, request_body, socket_scope


async def hello(request: Request) -> Response:
    return PlainTextResponse("hello")


async def broken(request: Request) -> Response:
    raise ValueError("what the user said")


async def socket(socket: WebSocket) -> None:
    """Open it and close it as the first message says; without one wait for the client to leave."""
    await socket.accept()
    message = await socket.receive()
    if "text" in message:
        await socket.close(int(message["text"]), "slow_consumer")


ROUTES = [
    Route("/v1/things/{id}", hello),
    Route("/broken", broken),
    Route("/healthz", hello),
    WebSocketRoute("/v1/socket", socket),
]


def watch(scope: dict[str, Any], incoming: list[Message]) -> tuple[Metrics, list[Message]]:
    """Serve one request; what was counted and what was sent."""
    metrics = Metrics()
    app = RequestWatch(Starlette(routes=ROUTES), ROUTES, metrics)
    return metrics, asyncio.run(drive(app, scope, incoming))


def test_a_request_is_counted_by_its_route() -> None:
    """The template of the path is the label, not the path."""
    metrics, sent = watch(http_scope("GET", "/v1/things/abc", {}), request_body())
    assert sent[0]["status"] == 200
    assert dict(metrics.requests) == {("GET", "/v1/things/{id}", "200"): 1}
    assert metrics.request_time["/v1/things/{id}"].count == 1


def test_what_has_no_route_has_one_label() -> None:
    """Guessed addresses and methods do not make series."""
    metrics, _ = watch(http_scope("BREW", "/no/such/thing", {}), request_body())
    assert dict(metrics.requests) == {("other", "none", "404"): 1}


def test_a_request_is_logged_without_its_query(caplog: pytest.LogCaptureFixture) -> None:
    """A search's words are in no line; the route, the status and the client are."""
    caplog.set_level(logging.DEBUG)
    watch(http_scope("GET", "/v1/things/abc", {}, query="q=secret+words"), request_body())
    lines = [JsonLines().format(record) for record in caplog.records]
    line = next(line for line in lines if '"event": "request"' in line)
    assert '"route": "/v1/things/{id}"' in line
    assert '"status": 200' in line
    assert '"client": "127.0.0.1"' in line
    assert not any("secret" in line or "abc" in line for line in lines)


def test_probes_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What asks every few seconds is counted, and logged for debugging only."""
    caplog.set_level(logging.INFO)
    metrics, _ = watch(http_scope("GET", "/healthz", {}), request_body())
    assert dict(metrics.requests) == {("GET", "/healthz", "200"): 1}
    assert not [record for record in caplog.records if record.getMessage() == "request"]


def test_a_request_that_fails_counts_as_500() -> None:
    """The exception goes on its way to the server."""
    metrics = Metrics()
    app = RequestWatch(Starlette(routes=ROUTES), ROUTES, metrics)
    with pytest.raises(ValueError, match="user said"):
        asyncio.run(drive(app, http_scope("GET", "/broken", {}), request_body()))
    assert dict(metrics.requests) == {("GET", "/broken", "500"): 1}


@pytest.mark.parametrize(
    ("message", "code", "slow"),
    [
        ({"type": "websocket.receive", "text": "1013"}, "1013", 1),
        ({"type": "websocket.disconnect", "code": 1001}, "1001", 0),
    ],
)
def test_a_websocket_is_counted(message: Message, code: str, slow: int) -> None:
    """Whoever closes it, it is closed once, with the code of the first who did."""
    incoming = [{"type": "websocket.connect"}, message, {"type": "websocket.disconnect"}]
    metrics, _ = watch(socket_scope("/v1/socket"), incoming)
    assert metrics.sockets_opened == 1
    assert metrics.sockets_open == 0
    assert dict(metrics.sockets_closed) == {code: 1}
    assert metrics.slow_consumers == slow


async def deny(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("no", 421)(scope, receive, send)


async def admit(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": 1013})


async def close(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "websocket.close", "code": 1000})


@pytest.mark.parametrize(
    ("app", "status", "code"),
    [(deny, "421", "null"), (close, "403", "null"), (admit, "101", "1013")],
)
def test_a_websocket_is_logged(
    app: ASGIApp, status: str, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With the status of its handshake; a close code only of one that was open."""
    caplog.set_level(logging.INFO)
    scope = socket_scope("/v1/socket") | {"extensions": {"websocket.http.response": {}}}
    watched = RequestWatch(app, ROUTES, Metrics())
    asyncio.run(drive(watched, scope, [{"type": "websocket.connect"}]))
    lines = [JsonLines().format(record) for record in caplog.records]
    line = next(line for line in lines if '"event": "websocket"' in line)
    assert f'"status": {status}' in line
    assert f'"code": {code}' in line


def test_a_refused_websocket_is_none() -> None:
    """One that is closed before it was accepted was never open."""
    metrics, _ = watch(socket_scope("/v1/nothing"), [{"type": "websocket.connect"}])
    assert metrics.sockets_opened == 0
    assert not metrics.sockets_closed
