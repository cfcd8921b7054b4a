"""The protocol of a connection: what comes too early is no fault of ours."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from radixchat.server.socket_protocol import SocketProtocol
from radixchat.tests.server.test_connection_noise import UPGRADE

NO_FRAME = b"\xc1\x81abcdefgh"  # a reserved bit


def test_no_frame_before_the_handshake_is_answered() -> None:
    """The connection is cut, the app hears of it and can send nothing, and no error is raised."""
    came, told = asyncio.Event(), list[str]()
    failed: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "websocket.connect"
        came.set()
        told.append((await receive())["type"])  # somebody is looked up, and meanwhile it comes
        with contextlib.suppress(OSError):
            await send({"type": "websocket.accept"})
            told.append("accepted")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failed.append(str(context)))
        config = Config(app, ws=SocketProtocol, log_config=None)
        config.load()
        state = ServerState()
        server = await loop.create_server(lambda: SocketProtocol(config, state, {}), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(UPGRADE)
        await came.wait()
        writer.write(NO_FRAME)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        await asyncio.gather(*state.tasks)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        server.close()

    asyncio.run(asyncio.wait_for(main(), 300))
    assert failed == []
    assert told == ["websocket.disconnect"]


def test_a_refusal_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """A handshake that the app answers over HTTP gets that answer, and no error is logged."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.http.response.start", "status": 401, "headers": []})
        await send({"type": "websocket.http.response.body", "body": b"a key ", "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b"is needed"})

    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        config = Config(app, ws=SocketProtocol, log_config=None)
        config.load()
        state = ServerState()
        server = await loop.create_server(lambda: SocketProtocol(config, state, {}), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(UPGRADE)
        answer = await reader.read()
        await asyncio.gather(*state.tasks)
        writer.close()
        await writer.wait_closed()
        server.close()
        return answer

    answer = asyncio.run(asyncio.wait_for(main(), 300))
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert answer.endswith(b"a key is needed")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
