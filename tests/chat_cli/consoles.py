"""Consoles that record what is written to them, and say that they are terminals if they should."""

from __future__ import annotations

import io

from rich.console import Console

from radixchat.chat_cli.notes import Notes


class Recording(io.StringIO):
    """A stream for a console. `terminal`: what isatty() says."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def console(stream: Recording, width: int = 80) -> Console:
    """A console on the stream, made as the client makes its own."""
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=width, height=24)


def notes() -> tuple[Notes, Recording]:
    """Notes that go to a pipe, and what has been written."""
    stream = Recording()
    return Notes(console(stream)), stream
