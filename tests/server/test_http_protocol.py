"""What a connection may send and leave unread, and how many there may be."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from radixchat.server import listener
from radixchat.server.limits import Limits
from radixchat.server.listener import Listener, bind
from radixchat.server.serve_settings import ServeSettings
from radixchat.tests.server.narrow_server import narrow

LARGE = 8 << 20  # more than the buffers on the way take
ASKED = b"GET /where HTTP/1.1\r\nhost: localhost\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Says what it was asked, and how long the body was; at /early before it has come."""
    request = Request(scope, receive)
    path = request.url.path
    said = path if path == "/early" else f"{path} {len(await request.body())}"
    answer = PlainTextResponse("x" * LARGE if path == "/large" else said)
    await answer(scope, receive, send)


@contextlib.asynccontextmanager
async def listening(settings: ServeSettings) -> AsyncIterator[int]:
    """A listener of that app; its port."""
    sockets = narrow(bind(settings))
    serving = Listener(app, settings, sockets)
    await serving.start()
    try:
        yield sockets[0].getsockname()[1]
    finally:
        await serving.stop()


async def answer(port: int, *parts: bytes, patience: float = 60.0) -> bytes:
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
BOUNDED = ServeSettings(port=0, limits=Limits(max_header_bytes=1000, max_message_bytes=1000))
IMPATIENT = ServeSettings(port=0, limits=Limits(header_seconds=1.0))
CLOSE = b"connection: close\r\n\r\n"


def test_a_request_is_answered() -> None:
    """What is within the bounds comes through, whole or in pieces, without telling who serves."""
    whole = exchange(BOUNDED, ASKED + CLOSE)
    assert whole.startswith(b"HTTP/1.1 200 OK")
    assert whole.endswith(b"/where 0")
    assert b"server:" not in whole
    assert exchange(BOUNDED, ASKED[:7], ASKED[7:], CLOSE).endswith(b"/where 0")


def test_a_body_is_no_head() -> None:
    """A body larger than any head comes through, in the same packet as its head or later."""
    head = b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 5000\r\n"
    assert exchange(BOUNDED, head + CLOSE + b"x" * 5000).endswith(b"/x 5000")
    assert exchange(BOUNDED, head + CLOSE, b"x" * 2500, b"x" * 2500).endswith(b"/x 5000")
    kept = exchange(BOUNDED, head + b"\r\n" + b"x" * 5000, head + CLOSE, b"x" * 5000)
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
    assert exchange(BOUNDED, head).startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


def test_a_head_has_to_come() -> None:
    """Who connects and says nothing, or half of it, is left after a while; also a second time."""

    async def main() -> None:
        async with listening(IMPATIENT) as port:
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


ALL_SHORT = ServeSettings(
    port=0,
    limits=Limits(
        max_header_bytes=1000,
        max_message_bytes=1000,
        body_seconds=0.3,
        stalled_seconds=0.2,
        max_open=2,
    ),
)
EARLY = b"POST /early HTTP/1.1\r\nhost: a\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n0\r\n"


def is_cut(head: bytes, more: bytes) -> bool:
    """Whether the server ends a connection on which that goes on for ever."""

    async def main() -> bool:
        async with listening(ALL_SHORT) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(head)
                async with asyncio.timeout(60):
                    while not writer.transport.is_closing():
                        writer.write(more)
                        await writer.drain()
                        await asyncio.sleep(0.01)
            except TimeoutError:
                return False
            except ConnectionError:
                return True
            finally:
                writer.transport.abort()
            return True

    return asyncio.run(main())


def test_the_rest_of_an_answered_request_has_to_come() -> None:
    """A body that trickles in for ever after its answer does not keep the connection."""
    assert is_cut(EARLY + b"content-length: 900\r\n\r\n", b"x")


def test_the_rest_of_an_answered_request_may_come() -> None:
    """One that does come leaves the connection for the next request."""
    said = exchange(BOUNDED, EARLY + b"content-length: 9\r\n\r\n", b"x" * 9, ASKED + CLOSE)
    assert b"/early" in said
    assert said.endswith(b"/where 0")


def test_a_connection_is_not_kept_idle_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the rest of its last request came after the answer."""
    monkeypatch.setattr(listener, "_KEEP_ALIVE_SECONDS", 0.3)
    said = exchange(BOUNDED, EARLY + b"content-length: 9\r\n\r\n", b"x" * 9)
    assert said.endswith(b"/early")
    assert exchange(BOUNDED, ASKED + b"\r\n").endswith(b"/where 0")


@pytest.mark.parametrize("more", [b"t: v\r\n" * 50, b"v" * 300], ids=["many", "one"])
def test_what_follows_a_body_is_bounded(more: bytes) -> None:
    """Trailer after trailer, or one that does not end, is cut before it fills the memory."""
    assert is_cut(EARLY.replace(b"early", b"late") + CHUNKED, more)


async def comes_in(port: int) -> None:
    """Return when a request is answered again."""
    async with asyncio.timeout(60):
        while not (await answer(port, ASKED + CLOSE)).endswith(b"/where 0"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # another process's would ask like this, too


def test_a_connection_too_many_is_turned_away() -> None:
    """It is told so, with the numbers; once another has gone the next comes in."""

    async def main() -> None:
        async with listening(ALL_SHORT) as port:
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            refused = await answer(port, ASKED + b"\r\n")
            head, _, body = refused.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503")
            assert b"retry-after-ms: 1000" in head.lower()
            error = json.loads(body)["error"]
            assert (error["code"], error["limit"]) == ("too_many_connections", 2)
            for _, writer in held:
                writer.close()
                await writer.wait_closed()
            await comes_in(port)

    asyncio.run(main())


@pytest.mark.parametrize("end", [b"\r\n", CLOSE], ids=["keep", "close"])
def test_an_answer_that_nobody_takes_is_given_up(end: bytes) -> None:
    """Its connection is cut, whether or not it was to be kept, and others come in again."""

    async def main() -> None:
        async with listening(ALL_SHORT) as port:
            held = [await asyncio.open_connection("127.0.0.1", port, limit=1) for _ in range(2)]
            for reader, writer in held:
                writer.write(b"GET /large HTTP/1.1\r\nhost: a\r\n" + end)
                await reader.readexactly(1)
            await comes_in(port)
            for _, writer in held:
                writer.transport.abort()

    asyncio.run(main())
