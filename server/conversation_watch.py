"""Who wants to hear of a conversation's responses, whoever asked for them.

An Observer of the host: it hears of every response that begins, over a socket, over HTTP or in
the terminal. Knows no principal; whoever watches has looked the conversation up before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from radixchat.engine.request import TokenEvent
from radixchat.server.protocol import ResponseCreated, ResponseDone

Heard = Callable[[ResponseCreated], None]


class ConversationWatch:
    """The watchers of every conversation; used on one event loop."""

    def __init__(self) -> None:
        self._watchers: dict[str, list[Heard]] = {}

    def watch(self, conversation: str, heard: Heard) -> None:
        """Call `heard` with every response that begins there, in the context that asked for it."""
        self._watchers.setdefault(conversation, []).append(heard)

    def leave(self, conversation: str, heard: Heard) -> None:
        """No longer."""
        watchers = self._watchers[conversation]
        watchers.remove(heard)
        if not watchers:
            del self._watchers[conversation]

    def response_began(self, created: ResponseCreated) -> None:
        """Tell those who watch its conversation."""
        for heard in list(self._watchers.get(created.conversation, ())):
            heard(created)

    def response_ended(self, done: ResponseDone) -> None:
        """Nothing: whoever reads the response hears of its end."""

    def tokens_came(self, events: Sequence[TokenEvent]) -> None:
        """Nothing."""

    def database_used(self, seconds: float) -> None:
        """Nothing."""
