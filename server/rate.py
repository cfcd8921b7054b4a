"""What each principal has used: answers begun this minute, tokens generated today, sockets open.

Owns these counts, in memory. Knows no connection and no store; whoever begins an answer asks
`begin`. The clock is the caller's, so that a test needs no wait.

    answers   a bucket that holds a minute's and fills steadily: retry as soon as one is in it
    tokens    a day's, from midnight UTC; the answer that crosses the line is finished. After a
              restart those of stored answers are counted again (`restore`)
    sockets   counted in and out
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from radixchat.engine.errors import RateLimited
from radixchat.engine.request import TokenEvent
from radixchat.server.limits import Limits
from radixchat.server.protocol import ResponseCreated, ResponseDone

_DAY = 86_400
_MINUTE = 60.0
# So many principals' counts are kept; beyond that, those that are full again are dropped.
_MAX_BUCKETS = 10_000

# Whose sockets those are that have not given their key yet; no key has this principal.
NOBODY_YET = ""

# For whom the code at hand works; the socket or the request sets it, tasks inherit it.
current_principal: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "current_principal", default=None
)


@dataclass(slots=True)
class _Bucket:
    """Answers that may begin at once, as of a time."""

    left: float
    at: float


class Rates:
    """Counts of every principal, held against the limits. An Observer of the host.

    clock: seconds since the epoch.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.time) -> None:
        self._limits = limits
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._day = 0
        self._tokens: Counter[str] = Counter()
        self._sockets: Counter[str] = Counter()
        self._begun: dict[str, str] = {}

    def begin(self, principal: str) -> None:
        """Count an answer that is about to begin.

        Raises RateLimited, with the limit, what is left and when to try again; then nothing is
        counted.
        """
        now = self._clock()
        limit = self._limits.tokens_per_day
        if limit is not None and self.tokens_today(principal) >= limit:
            raise RateLimited(
                f"{self._tokens[principal]} tokens were generated today, the limit is {limit}",
                retry_after_ms=math.ceil(((self._day + 1) * _DAY - now) * 1000),
                details={"limit": limit, "used": self._tokens[principal], "kind": "tokens_per_day"},
            )
        per_minute = self._limits.requests_per_minute
        if per_minute is not None:
            self._take(principal, per_minute, now)

    @property
    def midnight(self) -> float:
        """When the day of `tokens_per_day` began."""
        return self._clock() // _DAY * _DAY

    def restore(self, tokens: Mapping[str, int]) -> None:
        """Count what was generated since midnight before this process, by principal."""
        for principal, number in tokens.items():
            self.spend(principal, number)

    def spend(self, principal: str, tokens: int) -> None:
        """Count what an answer generated."""
        self.tokens_today(principal)
        self._tokens[principal] += tokens

    def tokens_today(self, principal: str) -> int:
        """What was generated for it since midnight, UTC."""
        day = int(self._clock() // _DAY)
        if day != self._day:
            self._day = day
            self._tokens.clear()
        return self._tokens[principal]

    @property
    def num_sockets(self) -> int:
        """WebSockets that are open, of all principals."""
        return self._sockets.total()

    @contextlib.contextmanager
    def socket(self, principal: str) -> Iterator[None]:
        """Count one socket while the block runs. Raises RateLimited before it is entered."""
        own, everybody = self._limits.max_connections, self._limits.max_sockets
        for used, limit, whose in (
            (self._sockets[principal], own, "yours"),
            (self.num_sockets, everybody, "everybody's"),
        ):
            if used >= limit:
                raise RateLimited(
                    f"{used} connections are open, {whose} together may be {limit}",
                    retry_after_ms=1000,
                    details={"limit": limit, "used": used, "kind": "connections"},
                )
        self._sockets[principal] += 1
        try:
            yield
        finally:
            self._sockets[principal] -= 1
            if not self._sockets[principal]:
                del self._sockets[principal]

    def tokens_came(self, events: Sequence[TokenEvent]) -> None:
        """Nothing: what an answer generated is counted at its end."""

    def response_began(self, created: ResponseCreated) -> None:
        """Remember for whom a stored response is."""
        principal = current_principal.get()
        if principal is not None:
            self._begun[created.response] = principal

    def response_ended(self, done: ResponseDone) -> None:
        """Count what a stored response generated, whoever still reads it."""
        principal = None if done.response is None else self._begun.pop(done.response, None)
        if principal is not None:
            self.spend(principal, done.usage.output_tokens)

    def database_used(self, seconds: float) -> None:
        """Nothing: it costs no share."""

    def _take(self, principal: str, per_minute: int, now: float) -> None:
        bucket = self._buckets.get(principal) or _Bucket(per_minute, now)
        filled = bucket.left + max(0.0, now - bucket.at) * per_minute / _MINUTE
        left = min(float(per_minute), filled)
        if left < 1:
            raise RateLimited(
                f"{per_minute} answers a minute may begin; that is used up",
                retry_after_ms=max(1, math.ceil((1 - left) * _MINUTE / per_minute * 1000)),
                details={"limit": per_minute, "used": per_minute, "kind": "requests_per_minute"},
            )
        self._buckets[principal] = _Bucket(left - 1, now)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets = {
                name: kept for name, kept in self._buckets.items() if now - kept.at < _MINUTE
            }
