"""Notes that come at any time: above the input line while there is one, else as ever.

Knows prompt_toolkit's way to do it. No prompt and no reason.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager

from radixchat.chat_cli.notes import Notes


class AboveTheLine:
    """Writes in the order in which it is asked; `close` waits until all is on the screen."""

    def __init__(self) -> None:
        self._writing: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Wait for what is being written."""
        if self._writing:
            await asyncio.wait(self._writing)

    def write(self, say: Callable[[], None]) -> None:
        """Have it said: now, or when the input line is out of its way."""
        # Here, because only a prompt needs it, which has imported it by then.
        from prompt_toolkit.application import get_app_or_none

        app = get_app_or_none()
        if app is None or not app.is_running:
            say()
            return
        writing = asyncio.ensure_future(_above(say))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)


class NewsAbove:
    """Notes and errors, told above the line."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._above = AboveTheLine()

    def note(self, text: str) -> None:
        """Something worth knowing."""
        self._above.write(lambda: self._notes.note(text))

    def error(self, text: str) -> None:
        """Something did not work."""
        self._above.write(lambda: self._notes.error(text))

    def during(self, text: str) -> AbstractContextManager[None]:
        """Show a line while somebody waits, who has no input line then."""
        return self._notes.during(text)

    async def close(self) -> None:
        """Wait for what is being written."""
        await self._above.close()


async def _above(say: Callable[[], None]) -> None:
    from prompt_toolkit.application import in_terminal

    # A terminal that was closed ends the run as a signal.
    with contextlib.suppress(OSError):
        async with in_terminal():
            say()
