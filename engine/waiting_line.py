"""Who is admitted next: `WaitingLine`.

    priority 1   tenant A   a1 a2 a3        higher priorities first;
                 tenant B   b1              in turn between tenants, whatever they ask;
    priority 0   tenant A   a4 a5           inside a tenant the longest cached prefix

Prefixes are compared inside a tenant only, so that nobody learns from the order in which he is
served what others have asked (PROMPTPEEK, NDSS'25). Inside a tenant it is longest prefix first
(RadixAttention, NeurIPS'24) with ageing: each time that a later request goes first, those it
overtakes gain `1 / max_overtaken` of the longest possible prefix. So the first of a line that was
overtaken so many times is next, whatever comes. Knows no page and no step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from radixchat.engine.request import Request

# Prefixes of so many are compared, those that came first: at 2,048 tokens 4 us each.
LOOK_AHEAD = 64

Tokens = NDArray[np.int32]


@dataclass(slots=True, eq=False)
class _Place:
    """A waiting request; its cached prefix as of the state of the cache `seen`."""

    request: Request
    tokens: Tokens
    matched: int = 0
    seen: int = -1


class WaitingLine:
    """Requests that wait for admission."""

    def __init__(
        self,
        match: Callable[[Tokens, bytes], int],
        max_tokens: int,
        max_overtaken: int | None,
        *,
        by_prefix: bool,
    ) -> None:
        """An empty line.

        match: cached leading tokens of a prompt in a namespace. max_tokens: the longest prompt.
        max_overtaken: None is no ageing. by_prefix: False is in order of arrival.
        """
        self._match = match
        self._max_overtaken = max_overtaken
        self._age_tokens = -(-max_tokens // max_overtaken) if max_overtaken else 0
        self._by_prefix = by_prefix
        # By priority, then by tenant: whose turn it is comes first.
        self._lines: dict[int, dict[bytes, list[_Place]]] = {}

    def __len__(self) -> int:
        return sum(len(line) for lines in self._lines.values() for line in lines.values())

    def __iter__(self) -> Iterator[Request]:
        """In the order of priorities and turns; inside a tenant by arrival."""
        for priority in sorted(self._lines, reverse=True):
            for line in self._lines[priority].values():
                yield from (place.request for place in line)

    @property
    def priority(self) -> float:
        """The highest of those that wait; less than any where nobody does."""
        return max(self._lines, default=-math.inf)

    def add(self, request: Request) -> None:
        """A new request, behind those of its tenant."""
        self._line(request).append(_Place(request, np.array(request.tokens, np.int32)))

    def put_back(self, request: Request) -> None:
        """One that was admitted and gave its pages up: before those that never were."""
        line = self._line(request)
        admitted = (i for i, place in enumerate(line) if place.request.num_cached is None)
        where = next(admitted, len(line))
        line.insert(where, _Place(request, np.array(request.tokens, np.int32)))

    def next(self, state: int, skip: Callable[[Request], bool]) -> Request | None:
        """Who is to be admitted now, or None; nobody's place changes.

        state: a number that differs whenever the cache may hold other prefixes. skip: whether a
        request had better wait longer, for its own sake.
        """
        for priority in sorted(self._lines, reverse=True):
            for line in self._lines[priority].values():
                place = self._first(line, state, skip)
                if place is not None:
                    return place.request
        return None

    def admit(self, request: Request) -> None:
        """Take a request out of the line; it is the next tenant's turn."""
        tenants = self._lines[request.priority]
        line = tenants.pop(request.namespace)
        index = _index(line, request)
        if request.num_cached is None:
            for place in line[:index]:
                place.request.overtaken += 1
        del line[index]
        if line:
            tenants[request.namespace] = line
        elif not tenants:
            del self._lines[request.priority]

    def remove(self, request: Request) -> None:
        """Take a request out that is not going to be admitted."""
        tenants = self._lines[request.priority]
        line = tenants[request.namespace]
        del line[_index(line, request)]
        if not line:
            del tenants[request.namespace]
        if not tenants:
            del self._lines[request.priority]

    def _line(self, request: Request) -> list[_Place]:
        tenants = self._lines.setdefault(request.priority, {})
        return tenants.setdefault(request.namespace, [])

    def _first(
        self, line: list[_Place], state: int, skip: Callable[[Request], bool]
    ) -> _Place | None:
        if self._is_next(line[0].request):
            return line[0]
        ready = (place for place in line if not skip(place.request))
        if not self._by_prefix:
            return next(ready, None)
        best, best_score = None, -1
        for place in islice(ready, LOOK_AHEAD):
            if best is None and place is line[-1]:
                return place  # nobody to compare it with
            score = self._matched(place, state) + self._age_tokens * place.request.overtaken
            if score > best_score:
                best, best_score = place, score
        return best

    def _is_next(self, request: Request) -> bool:
        """Whether it goes before its tenant's others, whatever their prefixes."""
        if request.num_cached is not None:
            return True
        return self._max_overtaken is not None and request.overtaken >= self._max_overtaken

    def _matched(self, place: _Place, state: int) -> int:
        if place.seen != state:
            place.matched = self._match(place.tokens, place.request.namespace)
            place.seen = state
        return place.matched


def _index(line: list[_Place], request: Request) -> int:
    return next(i for i, place in enumerate(line) if place.request is request)
