"""`BusyWait`: how long a conversation that somebody else is answering is asked for again.

Knows no conversation and no clock but the event loop's: whoever asks says how it pauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from radixchat.server.protocol import ConversationLocked


class BusyWait:
    """From its making on; used on one event loop."""

    def __init__(self, seconds: float, pause: Callable[[float], Awaitable[None]]) -> None:
        self._give_up = asyncio.get_running_loop().time() + seconds
        self._pause = pause

    async def after(self, locked: ConversationLocked) -> None:
        """Until it may be asked for again.

        Raises `locked`: it has been asked for long enough, or to ask again would not help.
        """
        left = self._give_up - asyncio.get_running_loop().time()
        if locked.retry_after_ms <= 0 or left <= 0:
            raise locked
        await self._pause(min(locked.retry_after_ms / 1000, left))
