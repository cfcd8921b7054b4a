"""Where in a text its runs of three tokens end: what came next there may come next again.

Knows token ids and places; keeps no text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Two tokens meet again by accident, in plain chat more often than not; with four, one more token
# passes after each change before anything is guessed.
SIZE = 3
# A run is one whole number; no vocabulary has two million tokens.
TOKEN_BITS = 21
# So many runs at once are quicker with numpy than in a loop.
_MANY = 32


class NgramIndex:
    """Run of SIZE tokens -> the place after it, its earliest or its latest."""

    def __init__(self, places: dict[int, int], num_tokens: int) -> None:
        self._places = places
        self._num_tokens = num_tokens  # that are indexed

    @classmethod
    def of_earliest(cls, tokens: Sequence[int]) -> NgramIndex:
        """The earliest place of each run."""
        places = range(len(tokens), SIZE - 1, -1)
        return cls(dict(zip(reversed(_runs(tokens)), places, strict=True)), len(tokens))

    @classmethod
    def of_latest(cls, tokens: Sequence[int]) -> NgramIndex:
        """The latest place of each run; 8,000 tokens take 0.8 ms."""
        return cls(dict(zip(_runs(tokens), range(SIZE, len(tokens) + 1), strict=True)), len(tokens))

    def extend(self, tokens: Sequence[int], end: int) -> None:
        """Index `tokens[:end]`, which begin with what is indexed; later places replace earlier."""
        first = max(self._num_tokens + 1, SIZE)
        if end - first < _MANY:
            for place in range(first, end + 1):
                self._places[_last_run(tokens, place)] = place
        else:
            runs = _runs(tokens[first - SIZE : end])
            self._places.update(zip(runs, range(first, end + 1), strict=True))
        self._num_tokens = max(self._num_tokens, end)

    def find(self, tokens: Sequence[int]) -> int | None:
        """The place after a run like the last one of these tokens."""
        if len(tokens) < SIZE:
            return None
        return self._places.get(_last_run(tokens, len(tokens)))


def _last_run(tokens: Sequence[int], end: int) -> int:
    first, second, third = tokens[end - SIZE : end]
    return first << 2 * TOKEN_BITS | second << TOKEN_BITS | third


def _runs(tokens: Sequence[int]) -> list[int]:
    """The runs that end at SIZE, SIZE + 1, …"""
    ids = np.asarray(tokens, dtype=np.int64)
    packed = ids[:-2] << 2 * TOKEN_BITS | ids[1:-1] << TOKEN_BITS | ids[2:]
    runs: list[int] = packed.tolist()
    return runs
