"""Clients stay connected, and are answered, while somebody's long prompts are computed."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from radixchat.tests.server.server_process import serving
from radixchat.tests.server.sockets import Address, Client, socket_url
from radixchat.tests.tiny_model import endless_model_directory

# Tokens of a prompt, and for how many seconds prompts like that are computed, one after the other.
SHORT, LONG = (4_000, 0.0), (24_000, 60.0)
# How long a client does without a pong before it hangs up.
PATIENCE_S = 10.0


@pytest.mark.parametrize("size", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)])
def test_twenty_clients_stay_through_a_long_prompt(size: tuple[int, float], tmp_path: Path) -> None:
    """Pings both ways are answered all the time, and so is what a client asks for meanwhile."""
    tokens, seconds = size
    model = endless_model_directory(tmp_path / "model", tokens + 1000)
    flags = ("--pool-tokens", str(tokens + 4000))
    with serving(model, tmp_path, *flags) as process:
        took, waits = asyncio.run(
            asyncio.wait_for(_twenty(Address(socket_url(process.url)), tokens, seconds), 570)
        )
    print(f"prompts took {took}, longest wait {max(waits) * 1000:.0f} ms")  # noqa: T201
    assert max(waits) < (max(took) / 2 if seconds else PATIENCE_S)


async def _twenty(server: Address, tokens: int, seconds: float) -> tuple[list[float], list[float]]:
    """How long each prompt took, and how long each client waited at most for an answer."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                server.client(ping_interval=0.5, ping_timeout=PATIENCE_S)
            )
            for _ in range(20)
        ]
        busy = await stack.enter_async_context(server.client())
        computed = asyncio.Event()
        waiting = [asyncio.create_task(_ask(client, computed)) for client in clients]
        took: list[float] = []
        while not took or sum(took) < seconds:
            began = loop.time()
            # Another first word: nothing of it is cached.
            text = f"{len(took)}" + " word" * (tokens // 5)
            end = await busy.end(await busy.begin(text, generate=False))
            took.append(loop.time() - began)
            assert end["type"] == "response.completed"
            usage = end["response"]["usage"]
            assert usage["input_tokens"] > tokens - 100
            assert usage["input_tokens_details"]["cached_tokens"] < 100
        computed.set()
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
