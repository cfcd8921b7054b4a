"""Clients stay connected, and are answered, while somebody's long prompt is computed."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from radixchat.tests.server.server_process import serving
from radixchat.tests.server.sockets import Address, Client, socket_url
from radixchat.tests.tiny_model import endless_model_directory

# Tokens of the prompt; it is computed in this many seconds or more, on a machine of two cores.
SHORT, LONG = (4_000, 0.1), (48_000, 60.0)


@pytest.mark.parametrize("size", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)])
def test_twenty_clients_stay_through_a_long_prompt(size: tuple[int, float], tmp_path: Path) -> None:
    """Pings both ways are answered all the time, and so is what a client asks for meanwhile."""
    tokens, seconds = size
    model = endless_model_directory(tmp_path / "model", tokens + 1000)
    flags = ("--pool-tokens", str(tokens + 4000))
    with serving(model, tmp_path, *flags) as process:
        took, waits = asyncio.run(
            asyncio.wait_for(_twenty(Address(socket_url(process.url)), tokens), 280)
        )
    print(f"{took:.1f} s of prompt, longest wait {max(waits) * 1000:.0f} ms")  # noqa: T201
    assert took > seconds
    assert max(waits) < 5


async def _twenty(server: Address, tokens: int) -> tuple[float, list[float]]:
    """How long the prompt took, and how long each client waited at most for an answer."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        clients = [
            # A client that gets no pong in five seconds hangs up.
            await stack.enter_async_context(server.client(ping_interval=0.5, ping_timeout=5))
            for _ in range(20)
        ]
        busy = await stack.enter_async_context(server.client())
        computed = asyncio.Event()
        waiting = [asyncio.create_task(_ask(client, computed)) for client in clients]
        began = loop.time()
        response = await busy.begin("word " * (tokens // 5), generate=False)
        end = await busy.end(response)
        took = loop.time() - began
        computed.set()
        assert end["type"] == "response.completed"
        assert end["response"]["usage"]["input_tokens"] > tokens - 100
        return took, [await wait for wait in waiting]


async def _ask(client: Client, computed: asyncio.Event) -> float:
    """Ask something small again and again; the longest wait."""
    loop = asyncio.get_running_loop()
    longest = 0.0
    while not computed.is_set():
        asked = loop.time()
        await client.send("ping", t=asked)
        await client.until(lambda event: event["type"] == "pong")
        longest = max(longest, loop.time() - asked)
        await asyncio.sleep(0.25)
    return longest
