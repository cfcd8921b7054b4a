"""The outbox: one writer, bounded replies, sources asked only when there is room."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from radixchat.server.limits import Limits
from radixchat.server.metrics import Metrics
from radixchat.server.outbox import GONE, TRY_AGAIN_LATER, Closing, Outbox, WireEvent

LIMITS = Limits(stalled_seconds=0.2, max_queue_events=3, max_queue_bytes=1000)
BYE = Closing(1000, "bye")


class Reader:
    """The other side of the socket: keeps what came; reads nothing while the gate is shut."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, text: str) -> None:
        await self.gate.wait()
        self.got.append(json.loads(text))


class Count:
    """A source that counts: what nobody took in time is one event."""

    def __init__(self, name: str = "count") -> None:
        self.name = name
        self.value = self.told = 0
        self.takes = 0
        self.ended = self.closed = False

    def take(self) -> list[WireEvent]:
        assert not self.closed, "asked after it was left"
        self.takes += 1
        if self.value == self.told:
            return []
        first, self.told = self.told, self.value
        return [{self.name: [first, self.told]}]

    def close(self) -> None:
        self.closed = True


def outbox(reader: Reader, limits: Limits = LIMITS, heartbeat_s: float = 5.0) -> Outbox:
    return Outbox(reader.send, limits, Metrics(), lambda: {"type": "alive"}, heartbeat_s)


async def steps() -> None:
    """Let every task go on as far as it can without waiting for time."""
    for _ in range(100):
        await asyncio.sleep(0)


def run(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(body(), 300)

    asyncio.run(main())


def test_replies_are_sent_in_order_and_before_the_end() -> None:
    """finish() lets what was put before be sent; the first call decides how it ends."""

    async def body() -> None:
        reader = Reader()
        box = outbox(reader)
        writer = asyncio.create_task(box.run())
        for number in range(3):
            await box.put({"n": number})
        box.finish(BYE)
        box.finish(Closing(1011, "too late"))
        assert await writer == BYE
        assert reader.got == [{"n": 0}, {"n": 1}, {"n": 2}]

    run(body)


def test_put_waits_for_room_and_keeps_the_order() -> None:
    """No more replies wait than the limits say; whoever waits first is queued first."""

    async def body() -> None:
        reader = Reader()
        metrics = Metrics()
        box = Outbox(reader.send, replace(LIMITS, stalled_seconds=5), metrics, lambda: None)
        putting = [asyncio.create_task(box.put({"n": number})) for number in range(6)]
        await steps()
        assert [task.done() for task in putting] == [True] * 3 + [False] * 3
        assert metrics.socket_queue_bytes == 3 * len('{"n":0}')
        writer = asyncio.create_task(box.run())
        await asyncio.wait(putting)
        box.finish(BYE)
        await writer
        assert reader.got == [{"n": number} for number in range(6)]
        assert metrics.socket_queue_bytes == 0

    run(body)


def test_a_reply_larger_than_the_queue_goes_alone() -> None:
    """It waits until nothing else does, and is not refused."""

    async def body() -> None:
        reader = Reader()
        box = outbox(reader, replace(LIMITS, max_queue_bytes=10))
        await box.put({"n": 1})
        large = asyncio.create_task(box.put({"n": "x" * 100}))
        await steps()
        assert not large.done()
        writer = asyncio.create_task(box.run())
        await large
        box.finish(BYE)
        await writer
        assert [len(event["n"]) if isinstance(event["n"], str) else 1 for event in reader.got] == [
            1,
            100,
        ]

    run(body)


def test_what_a_slow_reader_misses_stays_in_the_source() -> None:
    """While a send waits, a source is not asked; then it is asked once for all of it."""

    async def body() -> None:
        reader, source = Reader(), Count()
        box = outbox(reader, replace(LIMITS, stalled_seconds=5))
        box.attach(source)
        writer = asyncio.create_task(box.run())
        source.value = 1
        box.wake()
        await steps()
        reader.gate.clear()
        source.value = 2
        box.wake()
        await steps()
        before = source.takes
        for value in range(3, 100):
            source.value = value
            box.wake()
            await asyncio.sleep(0)
        assert source.takes == before
        reader.gate.set()
        await steps()
        box.finish(BYE)
        await writer
        assert reader.got == [{"count": [0, 1]}, {"count": [1, 2]}, {"count": [2, 99]}]

    run(body)


def test_a_source_that_has_ended_is_left() -> None:
    """Once its last event was sent it is closed, and not asked again."""

    async def body() -> None:
        reader, source, other = Reader(), Count(), Count("other")
        box = outbox(reader)
        box.attach(source)
        box.attach(other)
        writer = asyncio.create_task(box.run())
        source.value, source.ended = 1, True
        box.wake()
        await steps()
        assert source.closed
        assert box.num_sources == 1
        other.value = 1
        box.wake()
        await steps()
        box.finish(BYE)
        await writer
        box.close()
        assert other.closed
        assert reader.got == [{"count": [0, 1]}, {"other": [0, 1]}]

    run(body)


def test_replies_without_end_do_not_keep_news_waiting() -> None:
    """A client that asks without a pause is told of its responses all the same."""

    async def body() -> None:
        reader, source = Reader(), Count()
        box = outbox(reader)
        box.attach(source)
        source.value = 1

        async def ask() -> None:
            while not source.told:
                await box.put({"n": 0})

        asking = asyncio.create_task(ask())
        writer = asyncio.create_task(box.run())
        await asking
        box.finish(BYE)
        await writer
        assert {"count": [0, 1]} in reader.got

    run(body)


def test_a_reader_that_takes_nothing_is_given_up() -> None:
    """After `stalled_seconds` of one send the connection is to be closed, to try again later."""

    async def body() -> None:
        reader = Reader()
        reader.gate.clear()
        box = outbox(reader)
        await box.put({"n": 0})
        assert await box.run() == Closing(TRY_AGAIN_LATER, "slow_consumer")

    run(body)


def test_nobody_there_ends_it() -> None:
    """A socket that cannot be written to ends the writer."""

    async def send(_: str) -> None:
        raise ConnectionResetError

    async def body() -> None:
        box = Outbox(send, LIMITS, Metrics(), lambda: None)
        await box.put({"n": 0})
        assert (await box.run()).code == GONE

    run(body)


def test_silence_is_broken_while_something_is_followed() -> None:
    """A source without news brings heartbeats; without a source there is nothing to wait for."""

    async def body() -> None:
        reader, source = Reader(), Count()
        box = outbox(reader, heartbeat_s=0.05)
        writer = asyncio.create_task(box.run())
        await asyncio.sleep(0.15)
        assert reader.got == []
        box.attach(source)
        while not reader.got:  # noqa: ASYNC110 - the reader tells nobody
            await asyncio.sleep(0.01)
        assert all(event == {"type": "alive"} for event in reader.got)
        box.finish(BYE)
        await writer

    run(body)


def test_news_that_say_nothing_break_no_silence() -> None:
    """A source that wakes the writer for what this reader does not get brings heartbeats, too."""

    async def body() -> None:
        reader, source = Reader(), Count()
        box = outbox(reader, heartbeat_s=0.05)
        box.attach(source)
        writer = asyncio.create_task(box.run())
        while not reader.got:
            await asyncio.sleep(0.01)
            box.wake()
        box.finish(BYE)
        await writer
        assert all(event == {"type": "alive"} for event in reader.got)

    run(body)
