"""Who comes in: the model has to be loaded, the key right, the share not used up.

Owns the order of these checks; each is somebody else's. What it lets in finds its principal in the
scope (`edge.principal_of`), and everything that it starts has `rate.current_principal`.

    open to all     the page, health, version
    a key           everything else; /metrics and /admin/drain an operator's
    a share         what begins an answer over HTTP; on a WebSocket its events are counted
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from radixchat.engine.errors import RadixChatError, ServerDraining
from radixchat.server.api_error import ApiError, api_error_of
from radixchat.server.auth import Principal, key_of
from radixchat.server.edge import PRINCIPAL, Edge
from radixchat.server.error_response import error_response
from radixchat.server.rate import current_principal

PROBES = ("/healthz", "/readyz")
PUBLIC = frozenset({*PROBES, "/version", "/", "/favicon.ico", "/robots.txt"})
# The page's files; there is nothing secret in them, and a browser sends no key for them.
PUBLIC_FOLDER = "/web/"
OPERATORS = frozenset({"/metrics", "/admin/drain"})
# A POST to one of these begins an answer.
ANSWERS = frozenset({"/v1/responses", "/v1/chat/completions", "/v1/completions"})
_LOADING_MS = 2000
# A client that is told only once is told a time in which most restarts are over. Who holds a socket
# comes back sooner, and waits longer each time.
RETRY_AFTER_MS, RECONNECT_AFTER_MS = 5000, 1000


class Gate:
    """ASGI: lets a request or a WebSocket in, or answers 401, 403, 429 or 503."""

    def __init__(self, app: ASGIApp, edge: Edge) -> None:
        self._app = app
        self._edge = edge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, and pass it on with its principal."""
        if scope["type"] not in ("http", "websocket") or _is_public(scope):
            await self._app(scope, receive, send)
            return
        with contextlib.ExitStack() as counted:
            try:
                await self._admit(scope, counted)
            except (ApiError, RadixChatError) as error:
                response = error_response(api_error_of(error), self._edge.metrics)
                await response(scope, receive, send)
                return
            await self._app(scope, receive, send)

    async def _admit(self, scope: Scope, counted: contextlib.ExitStack) -> None:
        """Count it in and name its principal. Raises ApiError or RadixChatError: it stays out."""
        edge = self._edge
        if not edge.is_open:
            raise ApiError(
                503,
                "model_loading",
                "the model is being loaded",
                details={"retry_after_ms": _LOADING_MS},
            )
        principal = await self._principal(scope)
        if principal is None:
            assert scope["type"] == "websocket", "an HTTP request has its key in a header"
        else:
            if scope["path"] in OPERATORS and not principal.is_operator:
                raise ApiError(
                    403, "operator_required", f"{scope['path']} is for an operator's key"
                )
            admit_as(scope, principal)
        if scope["type"] == "websocket":
            if edge.departure.draining.is_set():
                raise ServerDraining(RECONNECT_AFTER_MS)
            if principal is not None:
                counted.enter_context(edge.rates.socket(principal.id))
        elif scope["path"] in ANSWERS and scope["method"] == "POST":
            assert principal is not None
            if edge.departure.draining.is_set():
                raise ServerDraining(RETRY_AFTER_MS)
            edge.rates.begin(principal.id)
            counted.enter_context(_answering(edge))

    async def _principal(self, scope: Scope) -> Principal | None:
        """Who asks; None: a WebSocket whose first message is to say it. Raises ApiError."""
        authorization = HTTPConnection(scope).headers.get("authorization")
        key = key_of(authorization, scope.get("subprotocols", ()))
        principal = await self._edge.auth.principal(key)
        if principal is not None:
            return principal
        by_message = self._edge.settings.auth_mode == "message"
        if scope["type"] == "websocket" and by_message and key is None:
            return None
        message = "this key is not valid" if key else "a key is needed: Authorization: Bearer KEY"
        raise ApiError(401, "invalid_api_key", message)


def admit_as(scope: Scope, principal: Principal) -> None:
    """From here on it is known who asks; also called for a key that came in a first message."""
    scope[PRINCIPAL] = principal
    scope.setdefault("state", {})["principal"] = principal.id
    current_principal.set(principal.id)


def _is_public(scope: Scope) -> bool:
    if scope["type"] != "http":
        return False
    path: str = scope["path"]
    return path in PUBLIC or path.startswith(PUBLIC_FOLDER)


@contextlib.contextmanager
def _answering(edge: Edge) -> Iterator[None]:
    edge.num_answers += 1
    try:
        yield
    finally:
        edge.num_answers -= 1
