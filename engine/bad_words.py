"""Which token would complete a sequence that is never to be said: `BadWords`.

Knows token ids; no request and no logits.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence


class BadWords:
    """The forbidden sequences of one text, and as much of its end as the longest of them needs.

    A look costs what the words cost whose last token but one ends the text, however many there are.
    """

    def __init__(self, words: Sequence[Sequence[int]], tokens: Sequence[int] = ()) -> None:
        self._always = sorted({word[0] for word in words if len(word) == 1})
        self._by_end: dict[int, list[tuple[list[int], int]]] = {}
        self._reach = 0
        for *beginning, last in words:
            if beginning:
                self._by_end.setdefault(beginning[-1], []).append((beginning, last))
                self._reach = max(self._reach, len(beginning))
        self._end = list(tokens[max(0, len(tokens) - self._reach) :])

    def push(self, token: int) -> None:
        """One more token of the text."""
        self._end.append(token)
        del self._end[: -self._reach or None]

    def copy(self) -> BadWords:
        """An independent one of the same text."""
        twin = copy.copy(self)
        twin._end = self._end.copy()
        return twin

    def banned(self) -> list[int]:
        """The tokens that may not come next; one may be named twice."""
        ends = self._by_end.get(self._end[-1], ()) if self._end else ()
        completing = [last for begin, last in ends if self._end[-len(begin) :] == begin]
        return self._always + completing
