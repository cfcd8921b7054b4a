"""`Inbox`: what a connection has brought for one exchange and nobody has taken yet.

Deltas of a text that wait are one delta: a slow taker makes nothing grow but the text. Knows no
socket.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from radixchat.chat_cli.connection_loss import ConnectionLost

Event = Mapping[str, Any]
_DELTA = "response.output_text.delta"


class Inbox:
    """Events in their order, then, once it is lost, why no more will come."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._loss: ConnectionLost | None = None
        self._news = asyncio.Event()

    def put(self, event: Event) -> None:
        """One more."""
        if self._events and event.get("type") == _DELTA == self._events[-1].get("type"):
            event = _merged(self._events.pop(), event)
        self._events.append(event)
        self._news.set()

    def lose(self, loss: ConnectionLost) -> None:
        """The connection is gone."""
        self._loss = loss
        self._news.set()

    async def get(self) -> Event:
        """The next event. Raises ConnectionLost after the last one."""
        while not self._events:
            if self._loss is not None:
                raise self._loss
            self._news.clear()
            await self._news.wait()
        return self._events.popleft()


def _merged(first: Event, second: Event) -> Event:
    """Two deltas that follow each other as one."""
    extras = first["x"]
    number = extras.get("first_sequence_number", first["sequence_number"])
    return {
        **second,
        "delta": first["delta"] + second["delta"],
        "x": {"offset": extras["offset"], "first_sequence_number": number},
    }
