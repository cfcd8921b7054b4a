"""A terminal to render to, and the time in which it happens.

Owns a pseudo-terminal that is read as fast as it is written, and a clock that skips what would only
be waited for. Knows no answer.
"""

from __future__ import annotations

import io
import os
import pty
import termios
import time
from types import TracebackType

_CHUNK = 2048
"""Bytes that the kernel takes at once, whatever the terminal has not been read of."""


class SkippingClock:
    """Seconds; `wait_until` does not wait, but is later."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def now(self) -> float:
        """The time that has passed, and what was skipped."""
        return time.perf_counter() + self._skipped

    def wait_until(self, moment: float) -> None:
        """It is at least that late now."""
        self._skipped += max(0.0, moment - self.now())


class PtyScreen(io.TextIOBase):
    """A text stream into a pseudo-terminal, whose other end is read after each write.

    num_bytes, num_writes: what has come out there, in how many writes. shown: the last of it.
    """

    encoding = "utf-8"

    def __init__(self, columns: int, rows: int) -> None:
        self._leader, self._follower = pty.openpty()
        termios.tcsetwinsize(self._follower, (rows, columns))
        self.num_bytes = self.num_writes = 0
        self.shown = b""

    def __enter__(self) -> PtyScreen:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._follower)
        os.close(self._leader)

    def isatty(self) -> bool:
        """Whether it is a terminal, as the kernel sees it."""
        return os.isatty(self._follower)

    def fileno(self) -> int:
        """The end that programs write to."""
        return self._follower

    def write(self, text: str) -> int:
        """Through the terminal, until all of it has come out."""
        data = text.encode()
        shown = []
        for start in range(0, len(data), _CHUNK):
            part = data[start : start + _CHUNK]
            os.write(self._follower, part)
            waits = len(part) + part.count(b"\n")  # the driver writes CR LF
            while waits > 0:
                shown.append(os.read(self._leader, 65536))
                waits -= len(shown[-1])
        self.shown = b"".join(shown)
        self.num_bytes += len(self.shown)
        self.num_writes += 1
        return len(text)
