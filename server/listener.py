"""Where the server listens: addresses bound before anything else, and uvicorn run over them.

Owns the sockets and uvicorn's settings. Knows no route. Binding comes first and listening later:
an address that is taken is told before a model is loaded, and until the app can answer, whoever
connects is refused instead of kept waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Iterator, Sequence

import uvicorn
from starlette.types import ASGIApp

from radixchat.engine.errors import ConfigError
from radixchat.server.http_protocol import http_protocol
from radixchat.server.limits import Limits
from radixchat.server.origin import is_this_machine
from radixchat.server.serve_settings import ServeSettings
from radixchat.server.socket_protocol import SocketProtocol
from radixchat.server.tls import tls_context

PING_SECONDS, PONG_SECONDS = 20.0, 60.0
_KEEP_ALIVE_SECONDS = 75
# What a connection gets to send its last bytes when everything is being closed.
_LAST_SECONDS = 2
_LOOK_SECONDS = 0.02
# The model, the database, and connections that are being turned away.
_OTHER_FILES = 1024


def resolve(settings: ServeSettings) -> list[tuple[socket.AddressFamily, str]]:
    """The addresses that `host` means. Raises ConfigError: it means none."""
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigError(
            f"host is {settings.host!r}, which is no address of this machine ({error}); 127.0.0.1 "
            "is for this machine only, 0.0.0.0 for every address"
        ) from error
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def is_local(settings: ServeSettings) -> bool:
    """Whether only this machine can reach the address. Raises ConfigError."""
    return is_this_machine(address for _, address in resolve(settings))


def bind(settings: ServeSettings) -> list[socket.socket]:
    """Sockets at every address of `host`, not listening yet.

    Port 0 takes a free one, the same at all. Raises ConfigError: an address cannot be had.
    """
    port = settings.port
    with contextlib.ExitStack() as stack:
        sockets = []
        for family, address in resolve(settings):
            bound = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # "::" is every address of both kinds; "localhost" has its own of either kind.
                both = settings.host == "::"
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
            try:
                bound.bind((address, port))
            except OSError as error:
                raise ConfigError(
                    f"cannot listen at {address} port {port}: {error.strerror}; choose another "
                    "--port, or 0 for any that is free"
                ) from error
            port = bound.getsockname()[1]
            sockets.append(bound)
        stack.pop_all()
    return sockets


def url_of(settings: ServeSettings, sockets: Sequence[socket.socket]) -> str:
    """The address to open in a browser: of this machine, where the server has them all."""
    address, port = sockets[0].getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(address)
    if host is None:
        host = settings.host if ":" not in settings.host else f"[{settings.host}]"
    return f"{settings.scheme}://{host}:{port}"


def make_room(limits: Limits) -> None:
    """Let the process have as many files open as there may be connections, if the system does.

    Linux starts programs with 1,024, and an accept that fails takes the listener with it.
    """
    wanted = limits.open_connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Listener(uvicorn.Server):
    """uvicorn over bound sockets, started and stopped by us; signals are not its business."""

    def __init__(
        self, app: ASGIApp, settings: ServeSettings, sockets: Sequence[socket.socket]
    ) -> None:
        context = tls_context(settings)
        super().__init__(
            uvicorn.Config(
                app,
                http=http_protocol(settings.limits),
                ws=SocketProtocol,
                # What is only somewhat too large gets an answer that says so, and stays connected.
                ws_max_size=2 * settings.limits.max_message_bytes,
                ws_ping_interval=PING_SECONDS,
                ws_ping_timeout=PONG_SECONDS,
                # 64 KiB a connection, for text that is small.
                ws_per_message_deflate=False,
                lifespan="off",
                log_config=None,
                log_level="error",  # a warning would be a line for every scan of the port
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_LAST_SECONDS,
                ssl_context_factory=None if context is None else lambda *_: context,
            )
        )
        self._sockets = list(sockets)
        self._serving: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None: a signal means to drain, and that is not for a listener to decide."""
        yield

    async def start(self) -> None:
        """Listen. Raises what keeps it from that."""
        self._serving = asyncio.create_task(self.serve(self._sockets), name="listener")
        while not self.started:
            if self._serving.done():
                self._serving.result()
                raise ConfigError(f"nothing listens at {self._sockets}")
            await asyncio.sleep(_LOOK_SECONDS)

    async def stop(self) -> None:
        """Close the listener and every connection, and return when all are closed."""
        self.should_exit = True
        if self._serving is not None:
            await self._serving
