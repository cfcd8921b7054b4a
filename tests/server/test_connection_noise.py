"""Any bytes to the port: no traceback, nothing stays open, and the next request is answered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from dataclasses import replace

import pytest

from radixchat.server.local import LocalSettings
from radixchat.tests.server.sites import Site, at_site

UPGRADE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: radixchat.v1\r\n\r\n"
)
SEEDS = (
    UPGRADE,
    b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b'POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{"input":"hi"}',
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    b"\r\n5\r\nhello\r\n0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)
PIECES = (
    b"\r\n",
    b"\r\nHost: x\r\n",
    b"\0",
    b"Upgrade: websocket\r\n",
    b"Content-Length: 5\r\n",
    b"%00%ff",
    b"?a=%",
    b"\xff\xfe",
    b"Origin: http://[\r\n",
    b"Host: [::\r\n",
    b"Authorization: Bearer \xff\xff\r\n",
)
OPCODES = (0x81, 0x82, 0x88, 0x89, 0x8A, 0x01, 0x00, 0xC1, 0xF1, 0x83)


def noise(chance: random.Random) -> bytes:
    """A request with something wrong in it; after a handshake, frames of a kind."""
    data = bytearray(chance.choice(SEEDS))
    for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                del data[at : at + chance.randrange(1, 10)]
            case 1:
                data[at:at] = chance.randbytes(chance.randrange(1, 8))
            case 2:
                data[at:at] = chance.choice(PIECES)
            case _:
                other = chance.choice(SEEDS)
                begin = chance.randrange(len(other))
                data[at:at] = other[begin : begin + chance.randrange(1, 80)]
    if data.startswith(b"GET /v1/responses"):
        for _ in range(chance.randrange(4)):
            length = 0x80 | chance.choice((0, 1, 5, 125, 126, 127))
            data += bytes((chance.choice(OPCODES), length)) + chance.randbytes(20)
    return bytes(data)


async def one(port: int, data: bytes) -> bytes:
    """What comes back soon; the connection is left in whatever state it is in."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    with contextlib.suppress(ConnectionError, TimeoutError):
        writer.write(data)
        async with asyncio.timeout(0.1):
            answer = await reader.read(1 << 16)
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return answer


async def all_noise(site: Site, seconds: float, seed: int) -> None:
    chance = random.Random(seed)
    port, end = int(site.url.rpartition(":")[2]), time.monotonic() + seconds
    while time.monotonic() < end:
        sent = [noise(chance) for _ in range(16)]
        for data, answer in zip(
            sent, await asyncio.gather(*(one(port, data) for data in sent)), strict=True
        ):
            assert not answer.startswith(b"HTTP/1.1 500"), data
    async with asyncio.timeout(60):
        while site.edge.rates.num_sockets or site.edge.num_answers:  # noqa: ASYNC110 - none tells
            await asyncio.sleep(0.01)
    assert (await site.http.get("/readyz")).status_code == 200
    assert (await site.call("GET", "/v1/models"))["object"] == "list"


@pytest.mark.parametrize(
    "seconds", [2, pytest.param(30, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_any_bytes(
    seconds: float, settings: LocalSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing that comes is a bug of ours."""
    seed = random.randrange(1 << 30)
    failed: list[str] = []

    async def body(site: Site) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failed.append(str(context)))
        await all_noise(site, seconds, seed)

    with caplog.at_level(logging.WARNING):
        at_site(body, replace(settings, database=None))
    assert not failed, f"seed {seed}"
    assert [record for record in caplog.records if record.exc_info] == [], f"seed {seed}"
