"""`Use`: when, by whom and how a path was last in use; `Signal`: what is heard of a conversation.

What an eviction policy may know. A use belongs to the release of one request; nodes, and the
parts of merged nodes, refer to it. Knows no node, no page and no policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Signal(StrEnum):
    """News of a conversation: the first three come from the engine, the others from its client."""

    QUEUED = "queued"  # a request of it waits to be admitted, perhaps once more
    STARTED = "started"  # that request was admitted for the first time
    FINISHED = "finished"  # it has ended
    CONNECTED = "connected"
    AWAY = "away"  # connected, in the background
    DISCONNECTED = "disconnected"
    TYPING = "typing"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One use of some tokens; never changed, and compared by identity.

    stamp: logical time, one more for each release; 0: never released. time: the same in seconds
    of the cache's clock. conversation: whose request it was, None when it was not said. length:
    tokens of the path that was in use. reused: these tokens had been in use before. shared: by
    another conversation than this, at some time. superseded: the conversation has left them.
    """

    stamp: int
    time: float
    conversation: str | None
    length: int
    reused: bool = False
    shared: bool = False
    superseded: bool = False

    def following(self, prior: Use) -> Use:
        """This use, for tokens that were last in use at `prior`."""
        reused = self.reused or prior is not UNUSED
        shared = self.shared or prior.shared
        if prior is not UNUSED and prior.conversation != self.conversation:
            shared = True
        if (reused, shared) == (self.reused, self.shared):
            return self
        return replace(self, reused=reused, shared=shared)


UNUSED = Use(0, 0.0, None, 0)
