"""The time of a trace: seconds since its first line, never going back.

Knows no format; a line's own stamp comes from `trace_line.py`.
"""

from __future__ import annotations

from radixchat.bench.trace_line import TraceLine


class TraceClock:
    """Checks that either every line has a time or none, and that they are in order."""

    def __init__(self) -> None:
        self._started = False
        self._start: float | None = None
        self._latest = 0.0

    def elapsed(self, line: TraceLine, stamp: float | None) -> float | None:
        """Seconds from the first line to this, which says `stamp`; None in a trace without times.

        Raises TraceError where the time goes back, or is missing on some lines only.
        """
        if not self._started:
            self._started, self._start = True, stamp
            self._latest = stamp or 0.0
        if (stamp is None) != (self._start is None):
            had, has = ("no time", "one") if self._start is None else ("a time", "none")
            raise line.error(f"the first line has {had}, this has {has}; give all a time, or none")
        if stamp is None or self._start is None:
            return None
        if stamp < self._latest:
            raise line.error(
                f"the time goes back by {self._latest - stamp:.3f} s; sort the lines by time"
            )
        self._latest = stamp
        return stamp - self._start
