"""A server that is there and is loading its model: waited for by whoever wants to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.chat_cli.async_client import AsyncChatClient
from radixchat.chat_cli.backoff import Backoff
from radixchat.server.app import app_of
from radixchat.server.edge import Edge
from radixchat.server.keys import authenticator
from radixchat.server.listener import Listener, bind, url_of
from radixchat.server.local import LocalSettings, open_host
from radixchat.server.protocol import ServerDraining
from radixchat.server.serve_settings import ServeSettings


def while_loading(body: Callable[[str, Edge], Awaitable[None]]) -> None:
    """Do it beside a server that listens, and has no model yet."""

    async def main() -> None:
        settings = ServeSettings(port=0)
        sockets, edge = bind(settings), Edge(settings)
        listener = Listener(app_of(edge), settings, sockets)
        await listener.start()
        try:
            async with asyncio.timeout(300):
                await body(url_of(settings, sockets), edge)
        finally:
            await listener.stop()

    asyncio.run(main())


def test_it_is_waited_for(tiny_model: Path, tmp_path: Path) -> None:
    """Somebody is told so, once, and is connected when the model is there."""
    local = LocalSettings(model=str(tiny_model), database=tmp_path / "chat.db", threads=1)

    async def body(url: str, edge: Edge) -> None:
        told: list[str] = []
        heard = asyncio.Event()

        def tell(text: str) -> None:
            told.append(text)
            heard.set()

        client = AsyncChatClient(url, tell=tell, patience_s=300)
        entering = asyncio.create_task(client.__aenter__())
        await heard.wait()
        async with open_host(local) as host:
            edge.open(host, authenticator(host, edge.settings))
            await entering
            assert client.model_name == tiny_model.name
            await client.__aexit__(None, None, None)
            edge.departure.drain(0)
            edge.departure.close()
            await host.drain(0)
        assert told == [f"{url} is not ready: the model is being loaded; waiting for it"]

    while_loading(body)


@pytest.mark.parametrize("patience_s", [0.0, 0.05])
def test_not_for_ever(patience_s: float) -> None:
    """Whoever has no patience, or no more, gets its refusal."""

    async def body(url: str, edge: Edge) -> None:
        quick = replace(Backoff(), first_s=0.01, most_s=0.01)
        client = AsyncChatClient(url, patience_s=patience_s, backoff=quick)
        with pytest.raises(ServerDraining, match="being loaded"):
            await client.__aenter__()

    while_loading(body)
