"""What a connection has yet to be sent: a bounded queue of replies, and sources of news.

    commands ──put()──►  replies (bounded; put waits for room) ─┐
                                                                ├─►  run(): the one writer ─► socket
    subscriptions ◄──────────── take(), when there is room ─────┘

Nobody but the writer touches the socket. A source is asked only when the socket has taken what
came before, so what a slow reader misses is merged there and never queued here; a reader that
takes nothing at all for a while is given up. Knows no protocol: events are JSON objects.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from radixchat.server.limits import Limits
from radixchat.server.metrics import Metrics
from radixchat.server.wire_value import wire_json

WireEvent = dict[str, Any]

# How a connection ends (RFC 6455 §7.4 and the registry of codes).
GOING_AWAY, UNSUPPORTED_DATA, POLICY_VIOLATION = 1001, 1003, 1008
INTERNAL_ERROR, SERVICE_RESTART, TRY_AGAIN_LATER = 1011, 1012, 1013
UNAUTHORIZED = 3000  # as HTTP's 401
NO_STATUS, GONE = 1005, 1006  # never sent: the peer has left without a code, without a word

SLOW_CONSUMER = "slow_consumer"  # the reason of TRY_AGAIN_LATER

# How long a connection that follows something is silent; proxies cut at 30 seconds and more.
HEARTBEAT_S = 15.0


@dataclass(frozen=True, slots=True)
class Closing:
    """How a connection is closed: code and reason of the close frame. by_peer: it has been."""

    code: int
    reason: str = ""
    by_peer: bool = False


class Source(Protocol):
    """Where events come from, no faster than they can be sent."""

    @property
    def ended(self) -> bool:
        """All that there ever will be was taken."""

    def take(self) -> list[WireEvent]:
        """What is new. Never blocks."""

    def close(self) -> None:
        """It was told to its end, or nobody listens any more."""


class Outbox:
    """One connection's outgoing side; used on one event loop."""

    def __init__(
        self,
        send: Callable[[str], Awaitable[None]],
        limits: Limits,
        metrics: Metrics,
        heartbeat: Callable[[], WireEvent | None],
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        """send: puts a text frame on the socket, or raises OSError where nobody is there.

        heartbeat: an event to break the silence with, where something is followed; None: nothing.
        """
        self._send = send
        self._limits = limits
        self._metrics = metrics
        self._heartbeat = heartbeat
        self._heartbeat_s = heartbeat_s
        self._replies: deque[str] = deque()
        self._size = 0
        self._sources: list[Source] = []
        self._closing: Closing | None = None
        self._sent_at = 0.0  # on the loop's clock, the last event
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._putting = asyncio.Lock()  # whoever waits for room first is served first

    @property
    def num_sources(self) -> int:
        """How many sources are followed."""
        return len(self._sources)

    async def put(self, event: WireEvent) -> None:
        """Queue a reply; waits while the reader is behind with those before.

        One that is larger than the whole queue waits until it would be alone.
        """
        text = wire_json(event)
        async with self._putting:
            while self._replies and (
                len(self._replies) >= self._limits.max_queue_events
                or self._size + len(text) > self._limits.max_queue_bytes
            ):
                self._room.clear()
                await self._room.wait()
            self._replies.append(text)
            self._resize(len(text))
        self.wake()

    def attach(self, source: Source) -> None:
        """Follow a source; it wakes this outbox when there is news."""
        self._sources.append(source)
        self.wake()

    def detach(self, source: Source) -> None:
        """Follow it no more, whatever it still has."""
        if source in self._sources:
            self._sources.remove(source)
            source.close()

    def wake(self) -> None:
        """There is news."""
        self._news.set()

    def finish(self, closing: Closing) -> None:
        """Let run() end so, once what there is now was sent. The first call decides."""
        if self._closing is None:
            self._closing = closing
            self.wake()

    def close(self) -> None:
        """Leave every source, drop what waits. Nothing is sent any more."""
        while self._sources:
            self._sources.pop().close()
        self._replies.clear()
        self._resize(-self._size)

    async def run(self) -> Closing:
        """Send until the connection has to be closed, and say how.

        TRY_AGAIN_LATER: the reader took nothing for too long. GONE: there is none.
        """
        self._sent_at = asyncio.get_running_loop().time()
        try:
            while True:
                self._news.clear()
                replied, told = await self._send_replies(), await self._send_news()
                if replied or told:
                    continue
                if self._closing is not None:
                    return self._closing
                await self._rest()
        except _Stalled:
            return Closing(TRY_AGAIN_LATER, SLOW_CONSUMER)
        except OSError:
            return Closing(GONE, by_peer=True)

    def _resize(self, change: int) -> None:
        self._size += change
        self._metrics.socket_queued(change)

    async def _send_replies(self) -> bool:
        count = len(self._replies)  # and not those that come meanwhile: news has its turn
        for _ in range(count):
            text = self._replies.popleft()
            self._resize(-len(text))
            self._room.set()
            await self._send_text(text)
        return count > 0

    async def _send_news(self) -> bool:
        any_sent = False
        for source in list(self._sources):
            if source not in self._sources:
                continue  # left while another's events were sent
            for event in source.take():
                await self._send_text(wire_json(event))
                any_sent = True
            if source.ended:
                self.detach(source)
        return any_sent

    async def _rest(self) -> None:
        """Until there is news; while something is followed, with a sign of life now and then.

        News may be none for this reader: the silence is counted from what was sent.
        """
        try:
            async with asyncio.timeout_at(
                self._sent_at + self._heartbeat_s if self._sources else None
            ):
                await self._news.wait()
        except TimeoutError:
            self._sent_at = asyncio.get_running_loop().time()
            event = self._heartbeat()
            if event is not None:
                await self._send_text(wire_json(event))

    async def _send_text(self, text: str) -> None:
        try:
            async with asyncio.timeout(self._limits.stalled_seconds):
                await self._send(text)
        except TimeoutError as error:
            raise _Stalled from error
        self._sent_at = asyncio.get_running_loop().time()


class _Stalled(Exception):
    """The reader took nothing."""
