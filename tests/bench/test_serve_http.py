"""A connection to a server: addresses, servers that hang up, answers that break off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from radixchat.bench.serve_answer import AskFailed
from radixchat.bench.serve_chat import events
from radixchat.bench.serve_http import Address, HttpConnection


@pytest.mark.parametrize(
    ("url", "authority", "path", "socket"),
    [
        ("http://localhost:8000", "localhost:8000", "", "ws://localhost:8000/v1/responses"),
        ("http://localhost:8000/v1/", "localhost:8000", "", "ws://localhost:8000/v1/responses"),
        (
            "https://a.example/llm/v1",
            "a.example:443",
            "/llm",
            "wss://a.example:443/llm/v1/responses",
        ),
        ("http://[::1]:80", "[::1]:80", "", "ws://[::1]:80/v1/responses"),
    ],
)
def test_a_url_with_or_without_its_version(
    url: str, authority: str, path: str, socket: str
) -> None:
    """Is the same address."""
    address = Address.of(url)
    assert (address.authority, address.path) == (authority, path)
    assert address.websocket_url("/v1/responses") == socket


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://a.example", "http://"])
def test_what_is_no_url(url: str) -> None:
    """Is named."""
    with pytest.raises(ValueError, match="is no URL"):
        Address.of(url)


async def ask(answers: list[bytes], times: int) -> tuple[list[tuple[int, bytes]], int]:
    """Each answer closes its connection where it is followed by b""; how many there were."""
    opened = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        while answers:
            try:
                await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            if not (answer := answers.pop(0)):
                break
            writer.write(answer)
            await writer.drain()
            if answers and not answers[0]:
                answers.pop(0)
                break
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        address = Address.of(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        connection = HttpConnection(address, "secret")
        found = []
        try:
            for _ in range(times):
                status, body = await connection.request("GET", "/", b"")
                found.append((status, b"".join([part async for part in body])))
                await asyncio.sleep(0)
        finally:
            await connection.close()
    return found, opened


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def test_a_connection_is_used_again() -> None:
    """Also after a refusal, and after an answer in chunks."""
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    refused = b"HTTP/1.1 503 Later\r\ncontent-length: 0\r\n\r\n"
    found, opened = asyncio.run(ask([OK, chunked, refused, OK], 4))
    assert found == [(200, b"ok"), (200, b"ok"), (503, b""), (200, b"ok")]
    assert opened == 1


def test_a_server_that_hung_up_is_asked_once_more() -> None:
    """Where nothing of an answer had come."""
    found, opened = asyncio.run(ask([OK, b"", OK], 2))
    assert found == [(200, b"ok"), (200, b"ok")]
    assert opened == 2


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", b"SSH-2.0-OpenSSH\r\n\r\n"],
)
def test_an_answer_that_breaks_off(answer: bytes) -> None:
    """Is an error."""
    with pytest.raises(AskFailed, match="broke off"):
        asyncio.run(ask([answer, b""], 1))


def test_events_come_in_any_pieces() -> None:
    """Also with comments, with either line end, and with data of several lines."""
    text = (
        b": hi\r\ndata: one\r\n\r\ndata:two\ndata: three\n\n"
        b"event: x\n\n\xc3\xa4\n\ndata: \xc3\xa4\n\n"
    )

    async def read(size: int) -> list[str]:
        async def pieces() -> AsyncGenerator[bytes, None]:
            for start in range(0, len(text), size):
                yield text[start : start + size]

        return [data async for _, data in events(pieces())]

    for size in (1, 2, 7, len(text)):
        assert asyncio.run(read(size)) == ["one", "two\nthree", "ä"]
