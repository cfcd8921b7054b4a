"""Where a server listens, and what a connection may send before there is a request."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from radixchat.engine.errors import ConfigError
from radixchat.server.limits import Limits
from radixchat.server.listener import Listener, bind, is_local, make_room, resolve, url_of
from radixchat.server.serve_settings import ServeSettings

ASKED = b"GET /where HTTP/1.1\r\nhost: localhost\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Says what it was asked, and how long the body was."""
    request = Request(scope, receive)
    body = await request.body()
    answer = PlainTextResponse(f"{request.url.path} {len(body)}")
    await answer(scope, receive, send)


@contextlib.asynccontextmanager
async def listening(settings: ServeSettings) -> AsyncIterator[int]:
    """A listener of that app; its port."""
    sockets = bind(settings)
    listener = Listener(app, settings, sockets)
    await listener.start()
    try:
        yield sockets[0].getsockname()[1]
    finally:
        await listener.stop()


async def answer(port: int, *parts: bytes, patience: float = 5.0) -> bytes:
    """All that comes back for those bytes, until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            await asyncio.sleep(0.01)
        async with asyncio.timeout(patience):
            with contextlib.suppress(ConnectionError):
                return await reader.read()
        return b""
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def exchange(settings: ServeSettings, *parts: bytes) -> bytes:
    async def main() -> bytes:
        async with listening(settings) as port:
            return await answer(port, *parts)

    return asyncio.run(main())


FREE = ServeSettings(port=0)
SHORT = ServeSettings(port=0, limits=Limits(max_header_bytes=1000, header_seconds=0.3))
CLOSE = b"connection: close\r\n\r\n"


def test_a_request_is_answered() -> None:
    """What is within the bounds comes through, whole or in pieces, without telling who serves."""
    whole = exchange(SHORT, ASKED + CLOSE)
    assert whole.startswith(b"HTTP/1.1 200 OK")
    assert whole.endswith(b"/where 0")
    assert b"server:" not in whole
    assert exchange(SHORT, ASKED[:7], ASKED[7:], CLOSE).endswith(b"/where 0")


def test_a_body_is_no_head() -> None:
    """A body larger than any head comes through, in the same packet as its head or later."""
    head = b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 5000\r\n"
    assert exchange(SHORT, head + CLOSE + b"x" * 5000).endswith(b"/x 5000")
    assert exchange(SHORT, head + CLOSE, b"x" * 2500, b"x" * 2500).endswith(b"/x 5000")
    kept = exchange(SHORT, head + b"\r\n" + b"x" * 5000, head + CLOSE, b"x" * 5000)
    assert kept.count(b"/x 5000") == 2


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"h: v\r\n" * 400 + b"\r\n",
        b"GET / HTTP/1.1\r\nlong: " + b"v" * 2000,
        b"GET / HTTP/1.1\r\n" + b"h: v\r\n" * 400,
    ],
)
def test_a_head_is_bounded(head: bytes) -> None:
    """A head that is too long is refused, also one that never ends."""
    assert exchange(SHORT, head).startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


def test_a_head_has_to_come() -> None:
    """Who connects and says nothing, or half of it, is left after a while; also a second time."""

    async def main() -> None:
        async with listening(SHORT) as port:
            said = await asyncio.gather(
                answer(port),
                answer(port, b"GET / HT"),
                answer(port, ASKED + b"\r\n", b"GET / HT"),
            )
            assert said[0] == said[1] == b""
            assert said[2].endswith(b"/where 0")

    asyncio.run(main())


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET \xff\xfe\r\n\r\n"]
)
def test_what_is_no_http_is_refused(garbage: bytes) -> None:
    """Another protocol's bytes get a 400 and the connection's end."""
    assert exchange(FREE, garbage).startswith(b"HTTP/1.1 400")


def test_a_socket_at_an_impossible_address_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """An address that is no ASCII opens no WebSocket, and is nobody's bug."""
    upgrade = b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
    key = b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    asked = b"GET /\xc3\xa9 HTTP/1.1\r\nhost: a\r\n"
    assert exchange(FREE, asked + upgrade + key).startswith(b"HTTP/1.1 400")
    assert all(record.exc_info is None for record in caplog.records)


def test_an_address_that_is_taken_is_told_at_once() -> None:
    """Before anything is loaded, with the address and what would do."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1 port {port}: Address already in use"):
            bind(ServeSettings(port=port))


def test_a_host_that_is_none() -> None:
    """A name that means no address is refused with the name."""
    with pytest.raises(ConfigError, match=r"host is 'no\.such\.host\.invalid'"):
        resolve(ServeSettings(host="no.such.host.invalid"))
    with pytest.raises(ConfigError, match=r"cannot listen at 203\.0\.113\.7 port"):
        bind(ServeSettings(host="203.0.113.7", port=0))


def test_until_it_listens_nobody_waits() -> None:
    """A bound address refuses connections, it does not leave them hanging."""
    sockets = bind(FREE)
    try:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(sockets[0].getsockname())
    finally:
        for bound in sockets:
            bound.close()


def test_addresses_of_this_machine() -> None:
    """What only this machine reaches, and the address that a browser opens."""
    assert is_local(ServeSettings())
    assert is_local(ServeSettings(host="localhost"))
    assert not is_local(ServeSettings(host="0.0.0.0"))
    for host in ("127.0.0.1", "localhost", "0.0.0.0"):
        settings = ServeSettings(host=host, port=0)
        sockets = bind(settings)
        port = sockets[0].getsockname()[1]
        assert {bound.getsockname()[1] for bound in sockets} == {port}
        name = "127.0.0.1" if host == "0.0.0.0" else host
        assert url_of(settings, sockets) == f"http://{name}:{port}"
        for bound in sockets:
            bound.close()


def test_there_is_room_for_all_sockets() -> None:
    """A process may have more files open than sockets are allowed, where the system lets it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        make_room(Limits(max_sockets=300))
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1624
        make_room(Limits(max_sockets=1))  # never less than there was
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1624
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
