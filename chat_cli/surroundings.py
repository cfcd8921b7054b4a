"""What an input line shows and offers of the chat around it, read anew beside the typing.

Owns that reading: it delays no prompt, and what fails leaves what was known. Knows no key.
"""

from __future__ import annotations

import asyncio
import contextlib

from radixchat.chat_cli.chat_state import ChatState
from radixchat.chat_cli.prompt import Prompt
from radixchat.chat_cli.warmth import Warmth, warmth
from radixchat.server.protocol import RadixChatError

_OFFERED = 100
"""Conversations whose names Tab knows: a page of them."""


class Surroundings:
    """The bottom line of the prompt, and the names that it completes."""

    def __init__(self, state: ChatState, prompt: Prompt) -> None:
        self._state = state
        self._prompt = prompt
        self._warmth: Warmth | None = None
        self._reading: asyncio.Task[None] | None = None

    def refresh(self) -> None:
        """Begin to read how things are now; what was begun before is out of date."""
        if self._reading is not None:
            self._reading.cancel()
        self._reading = asyncio.create_task(self._read())

    async def close(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    async def _read(self) -> None:
        state = self._state
        if not state.notes.is_quiet:
            self._warmth = await warmth(state.client, state.conversation, self._warmth)
            self._prompt.show_below(self._warmth.line)
        with contextlib.suppress(RadixChatError):
            self._prompt.completion.conversations = await state.client.conversations(_OFFERED)
