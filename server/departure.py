"""`Departure`: how far a server is on its way out. Whoever keeps a connection open looks here.

    serving ── requested ── draining ────────────── closing ──────────────► the process ends
                            nothing new begins,     every connection is
                            what runs may finish    closed with `code`

Owns the steps. Knows no signal and no connection; `serve.py` takes them.
"""

from __future__ import annotations

import asyncio
import time

SERVICE_RESTART = 1012
INTERNAL_ERROR = 1011


class Departure:
    """Each step is set once, in this order, and never taken back.

    requested: an operator has asked the server to drain. code, reason: with which a WebSocket is
    closed at the end.
    """

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.draining = asyncio.Event()
        self.closing = asyncio.Event()
        self.code = SERVICE_RESTART
        self.reason = "the server is restarting"
        self._deadline: float | None = None

    @property
    def seconds_left(self) -> float:
        """What is left to running answers; 0 while nothing drains and after the deadline."""
        return 0.0 if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def drain(self, seconds: float) -> None:
        """Begin: running answers have so long."""
        self._deadline = time.monotonic() + seconds
        self.draining.set()

    def close(self) -> None:
        """Everything that is still open is to be closed."""
        self.closing.set()

    def fail(self, reason: str) -> None:
        """Close everything at once: nothing can be answered any more."""
        self.code = INTERNAL_ERROR
        self.reason = reason
        self.draining.set()
        self.closing.set()
