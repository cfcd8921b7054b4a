"""A chat that starts in a pseudo-terminal of its own, with a clock. Knows keys and bytes only."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from radixchat.bench.command import COMMAND

ROWS, COLUMNS = 24, 80
PATIENCE_S = 120.0
# An input line turns bracketed paste on when it is first drawn.
_PROMPT = re.compile(rb"\x1b\[\?2004h(?s:.)*> ")


class StartFailed(Exception):
    """The chat ended, or nothing came of it; the message has its last words."""


class StartTerminal:
    """`radixchat chat` with these flags, from the moment at which it is started.

    piped: answers go to a pipe instead of the terminal. Seconds count from the start.
    """

    def __init__(
        self, flags: Sequence[str], environment: Mapping[str, str], *, piped: bool = False
    ) -> None:
        self._screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._shown = b""
        self._began = time.perf_counter()
        self._process = subprocess.Popen(
            (*COMMAND, "chat", *flags),
            stdin=terminal,
            stdout=subprocess.PIPE if piped else terminal,
            stderr=terminal,
            env={**environment, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(terminal)

    def __enter__(self) -> StartTerminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
        os.close(self._screen)

    def prompt_s(self) -> float:
        """Until the prompt is on the screen. Raises StartFailed."""
        while not _PROMPT.search(self._shown):
            self._read(self._screen)
        return time.perf_counter() - self._began

    def press(self, keys: str) -> None:
        """Press them."""
        os.write(self._screen, keys.encode())

    def echo_s(self, key: str) -> float:
        """From a key to the first byte that the screen shows for it. Raises StartFailed."""
        began = time.perf_counter()
        self.press(key)
        self._read(self._screen)
        return time.perf_counter() - began

    def answer_s(self) -> float:
        """Until the first byte of an answer has come through the pipe. Raises StartFailed."""
        assert self._process.stdout is not None, "answers are piped"
        pipe = self._process.stdout.fileno()
        while self._read(self._screen, pipe) != pipe:
            pass
        return time.perf_counter() - self._began

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self._began

    def _read(self, *sources: int) -> int:
        """What has come from one of them; which one that is."""
        ready, _, _ = select.select(sources, [], [], PATIENCE_S)
        try:
            data = os.read(ready[-1], 65536) if ready else b""
        except OSError:  # the terminal of a process that has ended
            data = b""
        if not data:
            last = self._shown.decode(errors="replace").strip()[-300:]
            raise StartFailed(f"the chat ended, or says nothing more: {last!r}")
        if ready[-1] == self._screen:
            self._shown += data
        return ready[-1]
