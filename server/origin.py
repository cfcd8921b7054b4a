"""Which names a server answers to, and which web pages may talk to it.

A browser lets any page send requests to this machine, and a page's own name can be made to point
here (DNS rebinding): then the Host is the page's name. So a request whose Host is not a name of
this server is not for it, and one with an Origin comes from a page that has to be its own, or
allowed. Knows no key. Owns the check that comes before everything else.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from radixchat.server.api_error import ApiError
from radixchat.server.error_response import error_response
from radixchat.server.metrics import Metrics
from radixchat.server.serve_settings import ANY, ServeSettings

_WILDCARDS = ("0.0.0.0", "::")
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_NO_HOST = frozenset("@/?#\\ \t")  # what would be something else in an address, or vanish
# Whether a process is alive is no secret, and probes call it by any name.
_PROBES = ("/healthz", "/readyz")


class Doorway:
    """ASGI: lets in what is addressed to this server, by no page or by an allowed one.

    socket_paths: where a WebSocket may be opened; elsewhere there is nothing, 404.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServeSettings,
        metrics: Metrics,
        socket_paths: Collection[str],
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._socket_paths = frozenset(socket_paths)
        self._hosts = allowed_hosts(settings)
        self._takes_addresses = settings.host in _WILDCARDS
        self._origins = frozenset(origin.lower().rstrip("/") for origin in settings.allow_origins)
        self._scheme = settings.scheme

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, or answer 404, 421 or 403; a WebSocket is then never opened."""
        if scope["type"] in ("http", "websocket"):
            refusal = self._refusal(scope)
            if refusal is not None:
                await error_response(refusal, self._metrics)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        path = scope["path"]
        # A route's pattern ends with "$", which also matches before a newline: "/metrics%0A" would
        # come to the route of "/metrics", and past every check that knows that path.
        if not path.isprintable():
            return ApiError(404, "not_found", f"there is nothing at {path!r}")
        if scope["type"] == "websocket" and path not in self._socket_paths:
            return ApiError(404, "not_found", f"there is no WebSocket at {path}")
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if path not in _PROBES and not self._is_ours(host):
            return ApiError(
                421,
                "misdirected_request",
                f"this server does not go by the name {host!r}; `--allow-host` adds one",
            )
        origin = headers.get("origin")
        if origin is not None and not self._may_ask(origin, host):
            return ApiError(
                403,
                "origin_not_allowed",
                f"pages of {origin} may not use this server; `--allow-origin` lets them",
            )
        return None

    def _is_ours(self, host: str) -> bool:
        name = host_name(host)
        if name is None:
            return False
        if ANY in self._hosts or name in self._hosts:
            return True
        # An address is nobody's name, so no page can have made it point here.
        return self._takes_addresses and _is_address(name)

    def _may_ask(self, origin: str, host: str) -> bool:
        origin = origin.lower()
        if ANY in self._origins or origin in self._origins:
            return True
        try:
            parts = urlsplit(origin)
            own, port = host_name(parts.netloc), parts.port
        except ValueError:
            return False
        if own is None or parts.scheme not in ("http", "https"):
            return False
        # Before a proxy that ends TLS, the page's scheme is not this server's.
        if self._scheme == "https" != parts.scheme:
            return False
        default = _DEFAULT_PORTS[parts.scheme]
        return (own, port or default) == (host_name(host), _port(host) or default)


def allowed_hosts(settings: ServeSettings) -> frozenset[str]:
    """The names in a Host header that mean this server."""
    names = {"localhost", "127.0.0.1", "::1", *settings.allow_hosts}
    if settings.host in _WILDCARDS:
        names.add(socket.gethostname())
    else:
        names.add(settings.host)
    return frozenset(name.lower().strip("[]").rstrip(".") for name in names)


def host_name(host: str) -> str | None:
    """The name in a Host header, without port and brackets, in lower case; None: it has none."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return None
    if not name or not _NO_HOST.isdisjoint(host):
        return None
    return name.rstrip(".")


def _port(host: str) -> int | None:
    try:
        return urlsplit(f"//{host}").port
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_this_machine(addresses: Iterable[str]) -> bool:
    """Whether only this machine can reach all of the addresses."""
    return all(ipaddress.ip_address(a.partition("%")[0]).is_loopback for a in addresses)
