"""`CacheClock`: how long an engine is inside its cache. Knows no engine.

Measured from outside, so that the cache itself carries no clock: every method that engine and
scheduler call is replaced by one that times it, on that one cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from radixchat.radix.allocation import PageCache

# All of PageCache that a step may call.
_METHODS = ("match", "allocate", "extend", "commit", "release", "observe", "supersede", "purge")


class CacheClock:
    """Times a cache from now on. seconds, calls: so far; its own cost, 0.2 µs a call, is in it."""

    def __init__(self, cache: PageCache) -> None:
        self.seconds = 0.0
        self.calls = 0
        self._inside = False
        for name in _METHODS:
            setattr(cache, name, self._timed(getattr(cache, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            if self._inside:  # the cache calls itself
                return method(*arguments, **named)
            self._inside = True
            started = time.perf_counter()
            try:
                return method(*arguments, **named)
            finally:
                self.seconds += time.perf_counter() - started
                self.calls += 1
                self._inside = False

        return call
