"""The signals that end a server: the first asks it to leave, a second ends the process at once.

    loading      the first ends the process: nothing was promised to anybody yet
    serving      the first is waited for by `first`
    leaving      any other ends the process, as does time: a step of the engine can hang

What the store has is safe whenever the process ends, it is written as it comes. Knows no server.
"""

from __future__ import annotations

import asyncio
import os
import signal
from types import FrameType

_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SIGNALLED = 128
_TOO_LATE = 1


class Signals:
    """The handlers, as a context manager within a running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[signal.Signals] = self._loop.create_future()
        self._may_wait = False
        self._handled: list[signal.Signals] = []

    def __enter__(self) -> Signals:
        for number in _HANDLED:
            # `nohup` and background jobs of a script ignore a signal on purpose.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._loop.add_signal_handler(number, self._handle, number)
                self._handled.append(number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._handled:
            self._loop.remove_signal_handler(number)
            # Until the process has ended, with the loop closed.
            signal.signal(number, _end)

    async def first(self) -> signal.Signals:
        """From now on the first signal is waited for, here."""
        self._may_wait = True
        return await asyncio.shield(self._first)

    def leave_within(self, seconds: float) -> None:
        """End the process when it has not ended by then."""
        signal.signal(signal.SIGALRM, lambda *_: os._exit(_TOO_LATE))
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def _handle(self, number: signal.Signals) -> None:
        if not self._may_wait or self._first.done():
            os._exit(_SIGNALLED + number)
        self._first.set_result(number)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(_SIGNALLED + number)
