"""Notices when nothing moves: `Watchdog`.

Owns the time of the last progress; is told of it, and keeps no request. Whoever drives the engine
asks it after each step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from radixchat.engine.waits import Wait

_LOGGER = logging.getLogger(__name__)

# Longer than any step that computes takes; a step without anything to compute takes microseconds.
PATIENCE_SECONDS = 10.0


class Watchdog:
    """Reports once per stall: steps in which no request computed anything and none ended."""

    def __init__(self) -> None:
        self._still_since: float | None = None
        self._reported = False

    def progress(self) -> None:
        """Something was computed, or nothing is left to do."""
        self._still_since = None
        self._reported = False

    def still(self, now: float, waits: Callable[[], Iterable[Wait]]) -> bool:
        """A step moved nothing although there is work; whether that is a new stall, now logged."""
        if self._still_since is None:
            self._still_since = now
        if self._reported or now - self._still_since < PATIENCE_SECONDS:
            return False
        self._reported = True
        _LOGGER.warning(
            "no request got on for %.0f s: %s",
            now - self._still_since,
            "; ".join(map(str, waits())),
        )
        return True
