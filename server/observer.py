"""`Observer`: who wants to hear what the service does: metrics, traces, logs.

Called on the event loop, in the middle of the work: quick, and it never raises. Knows nothing of
who watches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from radixchat.engine.request import TokenEvent
from radixchat.server.protocol import ResponseCreated, ResponseDone


class Observer(Protocol):
    """Hears what happens, once each."""

    def tokens_came(self, events: Sequence[TokenEvent]) -> None:
        """What one engine step brought, of all requests."""

    def response_began(self, created: ResponseCreated) -> None:
        """A turn was accepted and stored; called where its request is being served."""

    def response_ended(self, done: ResponseDone) -> None:
        """A response came to its end, and is stored."""

    def database_used(self, seconds: float) -> None:
        """The store did one thing; seconds: waiting for its thread included."""
