"""`Metrics`: what this process has served, counted where it happens.

Owns every count that the engine does not keep itself. Labels are a few fixed words (a route, a
status, a close code): no id of a session, a principal or a response ever becomes one. Knows
neither HTTP nor the exposition's format (`exposition.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from radixchat.engine.request import TokenEvent, Usage
from radixchat.server.distribution import SECONDS, TOKENS, Distribution
from radixchat.server.protocol import ResponseCreated, ResponseDone
from radixchat.server.response_usage import SOURCES

CACHE_LABELS = ("hit", "partial", "miss")
# Those of RFC 6455 and of IANA's registry that this server, a proxy or a browser uses.
_CLOSE_CODES = frozenset({*range(1000, 1016), 3000, 3003, 3008})
_METHODS = frozenset({"GET", "POST", "DELETE", "PATCH", "PUT", "HEAD", "OPTIONS"})


@dataclass(slots=True)
class _LastToken:
    """When a running request had its last token, on the engine's clock."""

    at: float


class Metrics:
    """Counts since the process started; read by `exposition.py`. An `Observer` of the host.

    queue_time, computed_tokens and token_gaps are of every request of the engine; first_token
    of every answer to a client, by what the cache did for it: "hit", nothing was missed;
    "partial", less was found than there had been, or than a whole new conversation has; "miss",
    nothing was found.
    """

    def __init__(self) -> None:
        self.first_token = {label: Distribution(SECONDS) for label in CACHE_LABELS}
        self.token_gaps = Distribution(SECONDS)
        self.queue_time = Distribution(SECONDS)
        self.computed_tokens = Distribution(TOKENS)
        self.database_time = Distribution(SECONDS)
        self.cached_tokens = Counter(dict.fromkeys(SOURCES[:1], 0))  # by where they were
        self.responses: Counter[tuple[str, str]] = Counter()  # status, reason or error code
        self.requests: Counter[tuple[str, str, str]] = Counter()  # method, route, status
        self.request_time: dict[str, Distribution] = {}  # by route
        self.refusals: Counter[str] = Counter()  # by error code
        self.sockets_open = 0
        self.sockets_opened = 0
        self.sockets_closed: Counter[str] = Counter()  # by close code
        self.socket_queue_bytes = 0
        self.slow_consumers = 0
        self.resumes: Counter[str] = Counter()  # by result
        self._last: dict[int, _LastToken] = {}

    def tokens_came(self, events: Sequence[TokenEvent]) -> None:
        """Count the gaps between tokens; those of one step share the gap to the step before."""
        counts = Counter(event.request_id for event in events if event.token is not None)
        for event in events:
            came = counts.pop(event.request_id, 0)
            if came:
                last = self._last.get(event.request_id)
                if last is None:  # the first token has no gap, nor has what came with it
                    self._last[event.request_id] = _LastToken(event.at)
                else:
                    self.token_gaps.add(max(0.0, event.at - last.at) / came, came)
                    last.at = event.at
            if event.finish is not None:
                self._last.pop(event.request_id, None)
                if event.usage is not None:
                    self.queue_time.add(event.usage.queue_seconds)
                    self.computed_tokens.add(event.usage.computed_tokens)
                    self._count_cached(event.usage)

    def _count_cached(self, usage: Usage) -> None:
        below = (usage.host_tokens, usage.disk_tokens, usage.store_tokens)
        for place, tokens in zip(SOURCES, (usage.device_tokens, *below), strict=True):
            if tokens:
                self.cached_tokens[place] += tokens

    def response_began(self, created: ResponseCreated) -> None:
        """Nothing is counted before the end."""

    def response_ended(self, done: ResponseDone) -> None:
        """Count a response: how it ended, and when its first token came."""
        code = done.error.code if done.error is not None else done.reason or ""
        self.responses[done.status, code] += 1
        if done.timings.ttft_ms is not None:
            missed = done.miss is not None or done.usage.cached_tokens == 0
            label = "hit" if not missed else "partial" if done.usage.cached_tokens else "miss"
            self.first_token_came(done.timings.ttft_ms / 1000, label)

    def first_token_came(self, seconds: float, cache: str) -> None:
        """Count an answer's time to its first token. cache: one of CACHE_LABELS."""
        self.first_token[cache].add(seconds)

    def database_used(self, seconds: float) -> None:
        """Count one call of the store."""
        self.database_time.add(seconds)

    def request_ended(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an HTTP request. route: the template of its path, such as "/v1/responses/{id}"."""
        method = method if method in _METHODS else "other"
        self.requests[method, route, str(status)] += 1
        self.request_time.setdefault(route, Distribution(SECONDS)).add(seconds)

    def refused(self, code: str) -> None:
        """Count an error that was sent to a client, on whichever way."""
        self.refusals[code] += 1

    def socket_opened(self) -> None:
        """Count a WebSocket that was accepted."""
        self.sockets_open += 1
        self.sockets_opened += 1

    def socket_closed(self, code: int, *, slow: bool = False) -> None:
        """Count its end. slow: it was closed because its reader stalled."""
        assert self.sockets_open > 0, "closed more often than opened"
        self.sockets_open -= 1
        # A peer may send any code of a range of thousands.
        self.sockets_closed[str(code) if code in _CLOSE_CODES else "other"] += 1
        self.slow_consumers += slow

    def socket_queued(self, num_bytes: int) -> None:
        """So many bytes wait to be sent to sockets; negative when they were sent or dropped."""
        self.socket_queue_bytes += num_bytes

    def resumed(self, result: str) -> None:
        """Count a resume: "replay", "snapshot", "continued", "stored" or "not_found"."""
        self.resumes[result] += 1
