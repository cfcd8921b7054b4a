"""Streams of events: their form, and what becomes of one that nobody reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from starlette.types import Message

from radixchat.server.sse import DONE, HEARTBEAT, EventStream, sse, while_connected
from radixchat.tests.server.asgi import http_scope

SCOPE = http_scope("GET", "/", {})


class Source:
    """Yields so many events, then waits for ever or ends; closed: the iteration was.

    after: what each event waits for.
    """

    def __init__(
        self,
        count: int,
        *,
        ends: bool = True,
        after: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0),
    ) -> None:
        self._count = count
        self._ends = ends
        self._after = after
        self.closed = False

    async def events(self) -> AsyncGenerator[bytes]:
        try:
            for number in range(self._count):
                await self._after()
                yield sse({"n": number})
            if not self._ends:
                await asyncio.Event().wait()
        finally:
            self.closed = True


class Connection:
    """A client's end; reads: how many messages it takes before it stops to."""

    def __init__(self, reads: int = 1000) -> None:
        self._reads = reads
        self.sent: list[Message] = []
        self.left = asyncio.Event()
        self._news = asyncio.Condition()

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if len(self.sent) == self._reads:
            await asyncio.Event().wait()
        self.sent.append(message)
        async with self._news:
            self._news.notify_all()

    async def has(self, count: int) -> None:
        """Until so many messages were sent."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.sent) >= count)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


def stream(source: Source, connection: Connection, **options: float) -> None:
    """Run the stream to its end."""

    async def main() -> None:
        response = EventStream(source.events(), **{"stalled_s": 60.0, **options})
        await asyncio.wait_for(response(SCOPE, connection.receive, connection.send), 60)

    asyncio.run(main())


def test_the_form_of_an_event() -> None:
    """One line of JSON, whatever is in it; a name where there is one."""
    assert sse({"a": "x\n\ny"}) == b'data: {"a":"x\\n\\ny"}\n\n'
    assert sse({}, name="response.created") == b"event: response.created\ndata: {}\n\n"
    assert DONE == b"data: [DONE]\n\n"


def test_all_of_it_is_sent() -> None:
    """Then the end, once; nothing on the way keeps it back."""
    source, connection = Source(3), Connection()
    stream(source, connection)
    assert connection.body == b"".join(sse({"n": number}) for number in range(3))
    head = dict(connection.sent[0]["headers"])
    assert head[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert head[b"cache-control"] == b"no-store"
    assert [message.get("more_body") for message in connection.sent[1:]] == [True] * 3 + [False]
    assert source.closed


def test_a_silent_stream_says_that_it_is_there() -> None:
    """With comments, which no client takes for an event."""
    connection = Connection()
    source = Source(1, after=lambda: connection.has(2))  # the head, and a sign of life
    stream(source, connection, heartbeat_s=0.05)
    assert connection.body.startswith(HEARTBEAT)
    assert connection.body.endswith(sse({"n": 0}))


@pytest.mark.parametrize("count", [0, 1])
def test_a_client_that_goes_ends_it(count: int) -> None:
    """The iteration is closed, before its first event too."""

    async def main() -> None:
        source, connection = Source(count, ends=False), Connection()
        response = EventStream(source.events(), stalled_s=5)
        running = asyncio.ensure_future(response(SCOPE, connection.receive, connection.send))
        await connection.has(1 + count)
        connection.left.set()
        await asyncio.wait_for(running, 60)
        assert source.closed
        assert connection.sent[-1].get("more_body") is not False

    asyncio.run(main())


def test_a_reader_that_stalls_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    """After its time: the source is closed, and the answer stays without its end."""
    source, connection = Source(100), Connection(reads=3)
    stream(source, connection, stalled_s=0.1)
    assert source.closed
    assert len(connection.sent) == 3
    assert "not read for 0.1 s" in caplog.text


def test_a_source_that_fails_fails_the_answer() -> None:
    """What it raises is raised, its own timeout too."""

    async def failing() -> AsyncGenerator[bytes]:
        yield b""
        raise TimeoutError("its own")

    async def main() -> None:
        connection = Connection()
        with pytest.raises(TimeoutError, match="its own"):
            await EventStream(failing(), stalled_s=5)(SCOPE, connection.receive, connection.send)

    asyncio.run(main())


async def _value(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


def test_work_for_one_who_waits() -> None:
    """Its outcome, or what it raises; of one who has gone None, and the work is cancelled."""

    async def main() -> None:
        connection, ended = Connection(), asyncio.Event()
        assert await while_connected(connection.receive, _value(3)) == 3

        async def endless() -> int:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return 1

        asyncio.get_running_loop().call_later(0.05, connection.left.set)
        assert await while_connected(connection.receive, endless()) is None
        assert ended.is_set()

        async def fails() -> int:
            raise ValueError("x")

        with pytest.raises(ValueError, match="x"):
            await while_connected(Connection().receive, fails())

    asyncio.run(main())


def test_work_is_cancelled_with_whoever_asked() -> None:
    """A server that ends leaves nothing behind."""

    async def main() -> None:
        ended = asyncio.Event()

        async def endless() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        waiting = asyncio.ensure_future(while_connected(Connection().receive, endless()))
        for _ in range(100):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        assert ended.is_set()

    asyncio.run(main())
