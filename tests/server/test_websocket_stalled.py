"""Readers that do not read: they cost little, are cut, may come back, and disturb nobody."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed

from radixchat.server.limits import Limits
from radixchat.server.local import LocalSettings
from radixchat.server.serve_settings import ServeSettings
from radixchat.tests.server.interrupted_reader import InterruptedReader
from radixchat.tests.server.narrow_server import narrow, serving_narrowly
from radixchat.tests.server.server_process import ServerProcess
from radixchat.tests.server.sockets import (
    TERMINAL,
    Address,
    Client,
    held_to_its_numbers,
    open_server,
    settled,
    socket_url,
    text_of,
)
from radixchat.tests.slow_steps import slowed
from radixchat.tests.tiny_model import endless_model_directory

MEBIBYTE = 1 << 20
STALLED_S = Limits().stalled_seconds


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose answers are as long as it takes to fill a socket."""
    return endless_model_directory(tmp_path_factory.mktemp("endless"), 32_768)


@asynccontextmanager
async def stalled(server: Address) -> AsyncIterator[Client]:
    """A client with a small window that reads nothing but what it asks for."""
    address = urlsplit(server.url)
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, (address.hostname, address.port))
    async with server.client(
        sock=narrow, max_queue=1, ping_interval=None, close_timeout=0.1
    ) as client:
        yield client


async def how_it_ended(client: Client) -> int | None:
    """Read what there still is; the code of the close frame."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            await client.receive()
    return client.socket.close_code


def test_a_stalled_reader_is_cut_and_comes_back(endless: Path, tmp_path: Path) -> None:
    """1013 after a while without a byte taken; the response goes on, for others and for it."""
    local = LocalSettings(model=str(endless), database=tmp_path / "c.db", pool_tokens=16_384)
    settings = ServeSettings(port=0, limits=Limits(stalled_seconds=0.5))

    async def main() -> None:
        async with (
            open_server(local, settings, narrow) as server,
            server.client() as live,
            stalled(server) as client,
        ):
            response = await live.begin(max_output_tokens=1500, x={"ignore_eos": True})
            resumed = await client.ask("response.resume", response_id=response)
            assert resumed["mode"] == "replay"
            reading = asyncio.create_task(live.end(response))
            await settled(lambda: server.edge.metrics.slow_consumers == 1)
            # At once: whoever does not answer the close frame in time is cut off, and has 1006.
            assert await how_it_ended(client) == 1013
            whole = text_of(await reading)
            held_to_its_numbers(live.seen, response)
            seen = [e for e in client.seen if "sequence_number" in e]
            assert seen[-1]["type"] not in TERMINAL, "it was cut in the middle"
            reader = InterruptedReader(server, {}, [], response, seen[-1]["sequence_number"])
            reader.text = "".join(e.get("delta", "") for e in seen)
            assert await reader.read() == whole

    with slowed(0.001):  # so that a token is an event
        asyncio.run(asyncio.wait_for(main(), 300))


def test_a_client_that_asks_and_does_not_read_is_held_back(settings: LocalSettings) -> None:
    """Its replies are bounded, its next events are not read, and then it is cut."""
    limits = Limits(stalled_seconds=1, max_queue_bytes=64 << 10)

    async def main() -> None:
        async with (
            open_server(settings, ServeSettings(port=0, limits=limits), narrow) as server,
            stalled(server) as client,
        ):
            text = "x" * 20_000

            async def flood() -> None:
                with contextlib.suppress(ConnectionClosed):
                    while True:
                        await client.send("ping", t=text)

            flooding = asyncio.create_task(flood())
            sizes = []

            def is_cut() -> bool:
                sizes.append(server.edge.metrics.socket_queue_bytes)
                return server.edge.metrics.slow_consumers == 1

            await settled(is_cut)
            assert 0 < max(sizes) <= 64 << 10
            assert await how_it_ended(client) == 1013
            await flooding
            assert server.edge.metrics.socket_queue_bytes == 0

    asyncio.run(asyncio.wait_for(main(), 300))


@pytest.mark.slow
def test_fifty_stalled_readers_and_ten_live_ones(endless: Path) -> None:
    """C10: memory stays flat, the ten have everything in time, the fifty are cut and come back."""
    with serving_narrowly(endless, pool_tokens=16_384) as process:
        asyncio.run(asyncio.wait_for(_fifty_and_ten(process), 570))


async def _fifty_and_ten(process: ServerProcess) -> None:
    server = Address(socket_url(process.url))
    async with AsyncExitStack() as stack:
        live = [await stack.enter_async_context(server.client()) for _ in range(10)]
        fifty = [await stack.enter_async_context(stalled(server)) for _ in range(50)]
        before = memory(process, "VmRSS")
        response = await live[0].begin(
            max_output_tokens=12_000, x={"ignore_eos": True, "detach_s": -1}
        )
        for client in (*live[1:], *fifty):
            await client.send("response.resume", response_id=response)
        for client in fifty:
            await client.next("response.resumed")
        read = await asyncio.gather(*(_read(client, response) for client in live))
        whole, gaps = read[0][0], [gap for _, gap in read]
        assert [text for text, _ in read] == [whole] * 10
        assert max(gaps) < 0.9 * STALLED_S, "nobody waited for those who do not read"
        await settled(lambda: slow_consumers(process) == 50)
        grown = memory(process, "VmHWM") - before
        assert grown < 64 * MEBIBYTE, f"grown by {grown / MEBIBYTE:.1f} MiB"
        codes = await asyncio.gather(*(how_it_ended(client) for client in fifty))
        # 1013 was sent to each. One cut long ago finds a connection that waited for it in vain.
        assert set(codes) <= {1013, 1006}
        for client in fifty:
            seen = [e for e in client.seen if "sequence_number" in e]
            reader = InterruptedReader(server, {}, [], response, seen[-1]["sequence_number"])
            reader.text = "".join(e.get("delta", "") for e in seen)
            assert await reader.read() == whole
        print(  # noqa: T201 - what it measured
            f"{len(whole)} characters; memory grew by {grown / MEBIBYTE:.1f} MiB; "
            f"longest gap of a live reader {max(gaps):.2f} s"
        )


async def _read(client: Client, response: str) -> tuple[str, float]:
    """The answer's text, and the longest time without an event before its end."""
    loop = asyncio.get_running_loop()
    longest, last = 0.0, loop.time()
    while True:
        event = await client.receive()
        now = loop.time()
        longest, last = max(longest, now - last), now
        if event["type"] in TERMINAL:
            assert event["response"]["id"] == response
            return text_of(event), longest


def memory(process: ServerProcess, name: str) -> int:
    """Bytes of the server's process: "VmRSS" now, "VmHWM" at most so far."""
    lines = Path(f"/proc/{process.process.pid}/status").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields[name].removesuffix("kB")) * 1024


def slow_consumers(process: ServerProcess) -> int:
    """How many readers the server has given up."""
    with process.client() as client:
        series = client.get("/metrics").text.splitlines()
    counts = dict(line.rsplit(" ", 1) for line in series if not line.startswith("#"))
    return int(float(counts["radixchat_slow_consumer_closed_total"]))
