"""A server in this process at a socket of its own, for the tests of what it answers over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import httpx

from radixchat.engine.engine import Engine
from radixchat.engine.request import TokenEvent
from radixchat.server.app import app_of
from radixchat.server.auth import Authenticator, Principal
from radixchat.server.edge import Edge
from radixchat.server.host import ChatHost
from radixchat.server.listener import Listener, bind, url_of
from radixchat.server.local import LocalSettings, open_host
from radixchat.server.protocol import ResponseCreated, ResponseDone
from radixchat.server.serve_settings import ServeSettings

T = TypeVar("T")
SITE_SETTINGS = ServeSettings(port=0)
# The principals of the tests, by key; without one it is the operator of this machine.
KEYS = {"key-a": Principal("a"), "key-b": Principal("b")}


@dataclass(frozen=True, slots=True)
class Site:
    """A server that listens, and a client of it."""

    host: ChatHost
    edge: Edge
    url: str
    http: httpx.AsyncClient

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The answer's JSON, which has to be no error."""
        answer = await self.http.request(method, path, json=body, **more)
        assert answer.status_code < 400, answer.text
        assert answer.text.endswith("\n"), "a shell's prompt would stand behind it"
        return answer.json()

    async def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str, Any]:
        """Status, code and param of an answer that has to be an error."""
        answer = await self.http.request(method, path, json=body)
        assert answer.status_code >= 400, answer.text
        assert answer.text.endswith("\n"), "a shell's prompt would stand behind it"
        error = answer.json()["error"]
        return answer.status_code, error["code"], error["param"]

    @asynccontextmanager
    async def events(
        self, method: str, path: str, body: Any = None
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """The events of a stream; leaving the block closes its connection."""
        async with (
            httpx.AsyncClient(base_url=self.url, timeout=30) as client,
            client.stream(method, path, json=body) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            yield _events(answer)

    async def begun(self) -> str:
        """The id of the next response that begins."""
        watch = _Began(asyncio.get_running_loop().create_future())
        self.host.observers.append(watch)
        try:
            return await watch.response
        finally:
            self.host.observers.remove(watch)

    async def idle(self) -> None:
        """Until no response runs, and the observers have heard of it."""
        while self.host.running:
            await asyncio.wait({response.task for response in self.host.running.values()})
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class _Began:
    """An Observer that waits for one response to begin."""

    response: asyncio.Future[str]

    def tokens_came(self, events: Sequence[TokenEvent]) -> None:
        pass

    def response_began(self, created: ResponseCreated) -> None:
        if not self.response.done():
            self.response.set_result(created.response)

    def response_ended(self, done: ResponseDone) -> None:
        pass

    def database_used(self, seconds: float) -> None:
        pass


async def _events(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    name = None
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            event = json.loads(line.removeprefix("data: "))
            assert event["type"] == name
            yield event


def break_down(engine: Engine) -> None:
    """Have its next step fail."""

    def step() -> None:
        raise MemoryError("no more")

    engine.__dict__["step"] = step


async def find_key(key: str) -> Principal | None:
    """Who has a key of the tests."""
    return KEYS.get(key)


async def no_key() -> bool:
    """Nobody needs one."""
    return False


@asynccontextmanager
async def open_site(
    local: LocalSettings, settings: ServeSettings = SITE_SETTINGS
) -> AsyncIterator[Site]:
    """A server over a host of its own; everything is closed at the end."""
    edge, sockets = Edge(settings), bind(settings)
    listener = Listener(app_of(edge), settings, sockets)
    async with open_host(replace(local, threads=1)) as host:
        edge.open(host, Authenticator(find_key, no_key, is_open=True))
        await listener.start()
        url = url_of(settings, sockets)
        try:
            async with httpx.AsyncClient(base_url=url, timeout=30) as client:
                yield Site(host, edge, url, client)
        finally:
            await listener.stop()


def at_site(
    body: Callable[[Site], Awaitable[T]],
    local: LocalSettings,
    settings: ServeSettings = SITE_SETTINGS,
) -> T:
    """Run `body` with a server that is there for its duration."""

    async def main() -> T:
        async with open_site(local, settings) as site:
            return await asyncio.wait_for(body(site), 300)

    return asyncio.run(main())
