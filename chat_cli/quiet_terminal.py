"""The terminal while an answer streams: what is typed meanwhile is not shown.

Owns the terminal's modes between two prompts, also across Ctrl-Z. Without it, keys would echo into
the live rows, and a paste would arrive as so many lines instead of one message. Knows no prompt and
no answer; `type_ahead.py` reads the keys.
"""

from __future__ import annotations

import contextlib
import os
import signal
import termios
from collections.abc import Iterator
from types import FrameType
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
        """No echo, keys as they are at a prompt, Ctrl-C still a signal, while the block runs."""
        suspend = signal.signal(signal.SIGTSTP, self._suspend)
        resume = signal.signal(signal.SIGCONT, self._resume)
        try:
            self._silence()
            yield
        finally:
            signal.signal(signal.SIGTSTP, suspend)
            signal.signal(signal.SIGCONT, resume)
            self.restore()

    def restore(self) -> None:
        """As the terminal was at the start; harmless when it is gone."""
        # RuntimeError: a signal handler met the screen in the middle of a write.
        with contextlib.suppress(termios.error, OSError, RuntimeError):
            termios.tcsetattr(self._fd, termios.TCSANOW, self._before)
            self._escape(_BRACKETED_PASTE_OFF)

    def _silence(self) -> None:
        attributes = termios.tcgetattr(self._fd)
        attributes[0] &= ~termios.ICRNL  # Alt-Enter, and a paste's CRLF, are as at a prompt
        attributes[3] &= ~(termios.ECHO | termios.ICANON)
        # Ctrl-C would throw away not only what was typed, but what the answer is writing too.
        attributes[3] |= termios.NOFLSH
        attributes[6][termios.VMIN], attributes[6][termios.VTIME] = 1, 0
        # TCSANOW: unlike TCSAFLUSH it keeps what was typed already.
        termios.tcsetattr(self._fd, termios.TCSANOW, attributes)
        self._escape(_BRACKETED_PASTE_ON)

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: whoever gets the terminal next finds it as it was."""
        self.restore()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # To this thread, so that the next line runs after the stop. Where no shell could continue
        # this process (it leads a container's session) the kernel drops the signal.
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._suspend)
        self._resume(number, frame)

    def _resume(self, number: int, frame: FrameType | None) -> None:
        """Continued: silent again, unless in the background, where the terminal is not ours."""
        with contextlib.suppress(termios.error, OSError, RuntimeError):
            if os.tcgetpgrp(self._fd) == os.getpgrp():
                self._silence()

    def _escape(self, sequence: str) -> None:
        if self._screen is not None:
            self._screen.write(sequence)
            self._screen.flush()
