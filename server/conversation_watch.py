"""Who wants to hear of a conversation: of its responses, and of what becomes of it.

An Observer of the host: it hears of every response that begins, asked for over a socket, over HTTP
or in the terminal. Knows no principal; whoever watches has looked the conversation up before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from radixchat.engine.request import TokenEvent
from radixchat.server.protocol import ResponseCreated, ResponseDone


class Watcher(Protocol):
    """Hears of what it watches, and never waits."""

    def began(self, created: ResponseCreated) -> None:
        """A response begins; called in the context that asked for it."""

    def changed(self, event: dict[str, Any]) -> None:
        """The conversation is another, or is no more: an event for the client."""


class ConversationWatch:
    """The watchers of every conversation; used on one event loop."""

    def __init__(self) -> None:
        self._watchers: dict[str, list[Watcher]] = {}

    def watch(self, conversation: str, watcher: Watcher) -> None:
        """From now on."""
        self._watchers.setdefault(conversation, []).append(watcher)

    def leave(self, conversation: str, watcher: Watcher) -> None:
        """No longer."""
        watchers = self._watchers[conversation]
        watchers.remove(watcher)
        if not watchers:
            del self._watchers[conversation]

    def tell(self, conversation: str, event: dict[str, Any], but: Watcher | None = None) -> None:
        """Whoever watches it gets the event; but: whoever knows already."""
        for watcher in list(self._watchers.get(conversation, ())):
            if watcher is not but:
                watcher.changed(event)

    def response_began(self, created: ResponseCreated) -> None:
        """Tell those who watch its conversation."""
        for watcher in list(self._watchers.get(created.conversation, ())):
            watcher.began(created)

    def response_ended(self, done: ResponseDone) -> None:
        """Nothing: whoever reads the response hears of its end."""

    def tokens_came(self, events: Sequence[TokenEvent]) -> None:
        """Nothing."""

    def database_used(self, seconds: float) -> None:
        """Nothing."""
