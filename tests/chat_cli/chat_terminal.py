"""`radixchat chat` in a pseudo-terminal, seen through a screen.

Owns the process. Knows the screen's text, not what should be on it.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType

import pexpect

from radixchat.tests.chat_cli.terminal_screen import TerminalScreen

COMMAND = (sys.executable, "-c", "from radixchat.chat_cli.main import main; main()")
STATUS = r"cached \d+/\d+"
# A start takes seconds, and many times as long where others use the machine.
PATIENCE_S = 60.0


class ChatTerminal:
    """A running chat; `wait_for` what it shows, `type` what it should get."""

    def __init__(
        self,
        *arguments: str,
        command: tuple[str, ...] = COMMAND,
        columns: int = 80,
        rows: int = 24,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = TerminalScreen(columns, rows)
        self.raw = ""
        self.process = pexpect.spawn(
            command[0],
            [*command[1:], *arguments],
            env={**os.environ, **(environment or {})},
            dimensions=(rows, columns),
            encoding="utf-8",
        )

    def __enter__(self) -> ChatTerminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.close(force=True)

    @property
    def text(self) -> str:
        """Scrollback and screen to the cursor's line, wrapped lines joined."""
        return "\n".join(self.screen.lines_to_cursor)

    def type(self, keys: str) -> None:
        """Press keys."""
        self.process.send(keys)

    def enter(self, text: str) -> None:
        """Type a line and send it."""
        self.type(text + "\r")

    def resize(self, columns: int, rows: int) -> None:
        """Resize the window."""
        self.screen.resize(columns, rows)
        self.process.setwinsize(rows, columns)

    def wait_for(self, pattern: str, *, times: int = 1, seconds: float = PATIENCE_S) -> None:
        """Read until the text matches `pattern` often enough; ^ and $ are those of a line."""
        self.wait_until(
            lambda: len(re.findall(pattern, self.text, re.MULTILINE)) >= times,
            f"{pattern!r} x {times}",
            seconds=seconds,
        )

    def wait_until(
        self, holds: Callable[[], bool], what: str, *, seconds: float = PATIENCE_S
    ) -> None:
        """Read until it holds."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"no {what} in:\n{self.text}"
            self._read()

    def answered(self, times: int) -> None:
        """Read until that many answers have ended and the prompt is back."""
        self.wait_for(STATUS, times=times)
        self.wait_for(r"> ?\Z")

    def exit_code(self, seconds: float = PATIENCE_S) -> int:
        """Read until the process has ended; what it exited with."""
        deadline = time.monotonic() + seconds
        while self._read():
            assert time.monotonic() < deadline, f"it did not end:\n{self.text}"
        self.process.close()
        assert self.process.signalstatus is None, f"killed by {self.process.signalstatus}"
        code: int = self.process.exitstatus
        return code

    def _read(self) -> bool:
        try:
            output = self.process.read_nonblocking(65536, timeout=0.2)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += output
        self.screen.feed(output)
        return True
