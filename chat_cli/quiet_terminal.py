"""The terminal while an answer streams: what is typed meanwhile is kept, and not shown.

Owns the terminal's modes between two prompts. Without it, keys would echo into the live rows, and
a paste would arrive as so many lines instead of one message. Knows no prompt and no answer.
"""

from __future__ import annotations

import contextlib
import termios
from collections.abc import Iterator
from typing import TextIO

_BRACKETED_PASTE_ON, _BRACKETED_PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class QuietTerminal:
    """The terminal whose keys come from `fd`.

    screen: where it takes escape sequences; None: it understands nothing but text.
    """

    def __init__(self, fd: int, screen: TextIO | None) -> None:
        self._fd = fd
        self._screen = screen
        self._before = termios.tcgetattr(fd)

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """No echo, keys kept for the next prompt, Ctrl-C still a signal, while the block runs."""
        attributes = termios.tcgetattr(self._fd)
        attributes[3] &= ~(termios.ECHO | termios.ICANON)
        attributes[3] |= termios.NOFLSH  # Ctrl-C must not throw away what was typed before it
        attributes[6][termios.VMIN], attributes[6][termios.VTIME] = 1, 0
        # TCSANOW: unlike TCSAFLUSH it keeps what was typed already.
        termios.tcsetattr(self._fd, termios.TCSANOW, attributes)
        self._escape(_BRACKETED_PASTE_ON)
        try:
            yield
        finally:
            self.restore()

    def restore(self) -> None:
        """As the terminal was at the start; harmless when it is gone."""
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(self._fd, termios.TCSANOW, self._before)
            self._escape(_BRACKETED_PASTE_OFF)

    def _escape(self, sequence: str) -> None:
        if self._screen is not None:
            self._screen.write(sequence)
            self._screen.flush()
