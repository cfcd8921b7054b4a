"""A proxy between a client and a server that cuts connections in the middle, for the tests.

Counts the WebSocket frames that the server sends; knows nothing of what is in them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_HEAD_END = b"\r\n\r\n"


@dataclass(slots=True)
class FlappingProxy:
    """cuts: after how many frames of the server each connection is cut; then none is any more.

    A cut without a frame is before the handshake's answer. target: where it leads; None: to nobody.
    """

    cuts: Iterator[int]
    target: tuple[str, int] | None
    url: str = ""
    num_cut: int = 0
    num_connected: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, as long as it lasts."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.num_connected += 1
        cut = next(self.cuts, None)
        try:
            if self.target is None:
                return
            up_reader, up_writer = await asyncio.open_connection(*self.target)
            sending = asyncio.create_task(_pipe(reader, up_writer))
            try:
                await self._receive(up_reader, writer, cut)
            finally:
                sending.cancel()
                up_writer.transport.abort()
                await asyncio.wait({sending})
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            self.tasks.discard(task)

    async def _receive(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: int | None
    ) -> None:
        if cut == 0:
            self.num_cut += 1
            return
        writer.write(await reader.readuntil(_HEAD_END))
        frames = 0
        while True:
            frame = await _frame(reader)
            frames += 1
            if frames == cut:
                self.num_cut += 1
                writer.write(frame[: len(frame) // 2])  # torn
                await writer.drain()
                return
            writer.write(frame)
            await writer.drain()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """One frame of a server: without a mask."""
    head = await reader.readexactly(2)
    size = head[1] & 0x7F
    if size >= 126:
        extended = await reader.readexactly(2 if size == 126 else 8)
        head, size = head + extended, int.from_bytes(extended)
    return head + await reader.readexactly(size)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def flapping_proxy(url: str, cuts: Iterator[int]) -> AsyncIterator[FlappingProxy]:
    """A proxy of the server at `url`."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    proxy = FlappingProxy(cuts, (parts.hostname, parts.port))
    server = await asyncio.start_server(_serving(proxy), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxy.url = f"ws://127.0.0.1:{port}"
    try:
        yield proxy
    finally:
        server.close()
        for task in list(proxy.tasks):
            task.cancel()
        if proxy.tasks:
            await asyncio.wait(proxy.tasks)
        await server.wait_closed()


def _serving(proxy: FlappingProxy) -> Callable[..., asyncio.Future[None]]:
    return lambda reader, writer: asyncio.ensure_future(proxy.serve(reader, writer))
