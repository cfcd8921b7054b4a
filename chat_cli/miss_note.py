"""Why tokens had to be computed again, in a line for people, where there is something to say.

Knows the record of a turn, no terminal. A first turn has nothing to compute again, and of a
template that rewrites history the chat tells once, at its start: neither is said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from radixchat.server.protocol import ResponseDone

_WHY: Mapping[str, str] = MappingProxyType(
    {
        "evicted": "evicted",
        "changed": "a message before the last one has changed",
        "truncated": "other turns are left out than before",
        "expired": "the cache of an earlier process is gone",
        "model": "they were another model's",
        "namespace": "they were another user's",
    }
)


def miss_note(done: ResponseDone) -> str | None:
    """`412 of 840 tokens were computed again: evicted 12 s ago`; None: nothing worth saying."""
    miss = done.miss
    if miss is None or miss.reason not in _WHY:
        return None
    tokens = f"{miss.cache_missed_tokens} of {done.usage.input_tokens} tokens"
    when = "" if miss.evicted_seconds_ago is None else f" {age(miss.evicted_seconds_ago)}"
    return f"{tokens} were computed again: {_WHY[miss.reason]}{when}"


def age(seconds: float) -> str:
    """`12 s ago`, `5 min ago`, `2 h ago`."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
