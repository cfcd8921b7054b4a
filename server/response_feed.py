"""A response as one connection is told of it: a Source of its outbox.

Owns one reader's place in a response's log and the numbering that this reader gets. Knows no
socket.
"""

from __future__ import annotations

import asyncio

from radixchat.server.encode import Encoder
from radixchat.server.outbox import WireEvent
from radixchat.server.response_log import Subscription


class ResponseFeed:
    """From a place in the log to its end; `told` is set when that was sent, or nobody listens.

    preface: events that are sent before.
    """

    def __init__(
        self,
        subscription: Subscription,
        encoder: Encoder,
        *,
        preface: list[WireEvent] | None = None,
        told: asyncio.Event | None = None,
    ) -> None:
        """told: of a feed that this one takes over from."""
        self.told = told or asyncio.Event()
        self._subscription = subscription
        self._encoder = encoder
        self._preface = preface or []

    @property
    def ended(self) -> bool:
        """The response's last event was taken."""
        return self._subscription.ended

    def take(self) -> list[WireEvent]:
        """What is new."""
        events, self._preface = self._preface, []
        for event in self._subscription.take():
            events.extend(self._encoder.events(event))
        return events

    def close(self) -> None:
        """Leave the response; whoever waited for its end goes on."""
        self._subscription.close()
        self.told.set()

    def hand_over(self) -> asyncio.Event:
        """Another feed takes over, and sets this one's `told`."""
        told, self.told = self.told, asyncio.Event()
        return told
