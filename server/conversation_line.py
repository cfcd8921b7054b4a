"""`ConversationLines`: whose turn it is in a conversation that is being answered already.

One turn at a time; who comes meanwhile is refused, waits in line, or ends what runs, as it asked.
Knows no store: that another process answers the conversation, the store tells when a turn begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from radixchat.engine.errors import ConversationLocked
from radixchat.server.response import LiveResponse

# As many turns wait for one conversation; a person does not type ahead further.
MAX_WAITING = 4
RETRY_MS = 500


class ConversationLines:
    """The lines of all conversations; a conversation where nobody waits takes no memory."""

    def __init__(self, running_in: Callable[[str], LiveResponse | None]) -> None:
        self._running_in = running_in
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}

    @asynccontextmanager
    async def turn(self, conversation: str | None, on_busy: str) -> AsyncIterator[None]:
        """Inside the block it is this turn that may begin next, in the order of arrival.

        on_busy: with "reject" nobody waits, and the store refuses. conversation: None of one that
        is not known to anybody else. Raises ConversationLocked where too many wait.
        """
        if conversation is None or on_busy == "reject":
            yield
            return
        if self._waiting.get(conversation, 0) >= MAX_WAITING:
            raise ConversationLocked(
                f"{MAX_WAITING} turns are waiting for conversation {conversation} already",
                RETRY_MS,
            )
        lock = self._locks.setdefault(conversation, asyncio.Lock())
        self._waiting[conversation] = self._waiting.get(conversation, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[conversation] -= 1
            if not self._waiting[conversation]:
                del self._waiting[conversation], self._locks[conversation]

    def is_busy(self, conversation: str | None) -> bool:
        """Whether a response of this process runs in it."""
        return conversation is not None and self._running_in(conversation) is not None

    async def idle(self, conversation: str | None, on_busy: str) -> None:
        """Wait for what runs in a conversation ("queue"), or end it ("interrupt"); in a turn."""
        if conversation is None or on_busy == "reject":
            return
        while (running := self._running_in(conversation)) is not None:
            if on_busy == "interrupt":
                running.cancel()
            await asyncio.wait({running.task})
            await asyncio.sleep(0)  # it is taken off the list of those that run
