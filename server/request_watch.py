"""`RequestWatch`: the outermost layer of the app: counts, times, logs and traces every request.

Pure ASGI: it passes messages on as they are and holds none back, so streams stay streams. A
request is named by its route's template, never by its address, which has ids and searched words.
Knows nothing of what the routes do.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from radixchat.server.log_format import log_event
from radixchat.server.metrics import Metrics
from radixchat.server.tracing import OpenTelemetry

_LOGGER = logging.getLogger(__name__)
NO_ROUTE = "none"
# Asked every few seconds by machines: logged only when they fail.
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
SLOW_CONSUMER = "slow_consumer"  # the reason that a stalled reader's socket is closed with
_ABNORMAL = 1011  # what the server sends when the app ends without closing the socket
_SWITCHING_PROTOCOLS, _FORBIDDEN, _SERVER_ERROR = 101, 403, 500


class RequestWatch:
    """Wraps an app; `routes` are the app's, to name requests by."""

    def __init__(
        self,
        app: ASGIApp,
        routes: Sequence[BaseRoute],
        metrics: Metrics,
        telemetry: OpenTelemetry | None = None,
    ) -> None:
        self._app = app
        self._routes = tuple(routes)
        self._metrics = metrics
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        route = self._template(scope)
        with self._span(scope, route):
            if scope["type"] == "http":
                await self._http(route, scope, receive, send)
            else:
                await self._socket(route, scope, receive, send)

    async def _http(self, route: str, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.monotonic()
        status = _SERVER_ERROR  # an app that fails before it answers

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            seconds = time.monotonic() - began
            self._metrics.request_ended(scope["method"], route, status, seconds)
            quiet = route in _PROBES and status < _SERVER_ERROR
            log_event(
                _LOGGER,
                logging.DEBUG if quiet else logging.INFO,
                "request",
                method=scope["method"],
                route=route,
                status=status,
                ms=round(seconds * 1000, 1),
                **_who(scope),
            )

    async def _socket(self, route: str, scope: Scope, receive: Receive, send: Send) -> None:
        watched = _Socket(self._metrics, receive, send)
        began = time.monotonic()
        try:
            await self._app(scope, watched.receive, watched.send)
        finally:
            watched.ended()
            log_event(
                _LOGGER,
                logging.INFO,
                "websocket",
                route=route,
                status=watched.status,
                code=watched.code,
                seconds=round(time.monotonic() - began, 1),
                **_who(scope),
            )

    def _template(self, scope: Scope) -> str:
        for route in self._routes:
            if route.matches(scope)[0] is not Match.NONE:
                return str(getattr(route, "path", NO_ROUTE))
        return NO_ROUTE

    @contextlib.contextmanager
    def _span(self, scope: Scope, route: str) -> Iterator[None]:
        if self._telemetry is None or route in _PROBES:
            yield
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        with self._telemetry.request_span(scope.get("method", "GET"), route, headers):
            yield


class _Socket:
    """One WebSocket's way through: when it opened, and with which code it was closed."""

    def __init__(self, metrics: Metrics, receive: Receive, send: Send) -> None:
        self._metrics = metrics
        self._receive = receive
        self._send = send
        self._is_open = False
        self.code: int | None = None  # None: it was refused before it opened
        self.status = _SERVER_ERROR  # of the handshake; an app that fails before it answers that

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self._close(message.get("code", _ABNORMAL))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "websocket.http.response.start":
            self.status = message["status"]
        elif message["type"] == "websocket.accept":
            self._is_open = True
            self.status = _SWITCHING_PROTOCOLS
            self._metrics.socket_opened()
        elif message["type"] == "websocket.close":
            if not self._is_open and self.code is None:
                self.status = _FORBIDDEN  # what the protocol makes of it
            slow = message.get("reason") == SLOW_CONSUMER
            self._close(message.get("code", 1000), slow=slow)
        await self._send(message)

    def ended(self) -> None:
        self._close(_ABNORMAL)

    def _close(self, code: int, *, slow: bool = False) -> None:
        """The first who closes counts."""
        if self._is_open:
            self._is_open = False
            self.code = code
            self._metrics.socket_closed(code, slow=slow)


def _who(scope: Scope) -> dict[str, Any]:
    """Whose request it is and from where, as far as that is known."""
    client, state = scope.get("client"), scope.get("state") or {}
    return {"principal": state.get("principal"), "client": client[0] if client else None}
