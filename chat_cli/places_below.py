"""Where cached tokens are, or came from, besides the pool, in words. Knows no cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from radixchat.server.protocol import CacheSegment, ResponseUsage

_FROM: Mapping[str, str] = MappingProxyType(
    {"host": "from host memory", "disk": "from disk", "store": "from a store"}
)
_IN: Mapping[str, str] = MappingProxyType(
    {"host": "in host memory", "disk": "on disk", "store": "in a store"}
)


def from_below(usage: ResponseUsage) -> str:
    """`112 from host memory, 700 from disk`; "" where all were in the pool, or none cached."""
    return _listed(dict(usage.sources), _FROM)


def lies_below(segments: Iterable[CacheSegment]) -> str:
    """`700 on disk`, of tokens that would come back from there; "" where there are none."""
    counts = Counter[str]()
    for segment in segments:
        counts[segment.state] += segment.end - segment.start
    return _listed(counts, _IN)


def _listed(counts: Mapping[str, int], words: Mapping[str, str]) -> str:
    named = ((counts.get(place, 0), word) for place, word in words.items())
    return ", ".join(f"{count:,} {word}" for count, word in named if count)
