"""Which tokens a text has, and how often: `TokenCounts`, which grows with it.

Knows token ids; no request and no logits.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class TokenCounts:
    """Distinct tokens in arrays, so that a penalty takes thousands of them in one operation."""

    def __init__(self, tokens: Sequence[int] = ()) -> None:
        ids, counts = np.unique(np.asarray(tokens, dtype=np.int64), return_counts=True)
        self._ids, self._counts = ids, counts.astype(np.int64)
        self._slots = dict(zip(ids.tolist(), range(len(ids)), strict=True))

    def push(self, token: int) -> None:
        """One more token of the text."""
        slot = self._slots.setdefault(token, len(self._slots))
        if slot == len(self._ids):
            room = np.zeros(slot + 16, dtype=np.int64)
            self._ids = np.concatenate((self._ids, room))
            self._counts = np.concatenate((self._counts, room))
        self._ids[slot] = token
        self._counts[slot] += 1

    def copy(self) -> TokenCounts:
        """An independent one of the same text."""
        twin = copy.copy(self)
        twin._ids, twin._counts = self._ids.copy(), self._counts.copy()
        twin._slots = self._slots.copy()
        return twin

    @property
    def ids(self) -> NDArray[np.int64]:
        """The distinct tokens; int64, the caller's own."""
        return self._ids[: len(self._slots)].copy()

    @property
    def counts(self) -> NDArray[np.int64]:
        """How often each of `ids` occurs."""
        return self._counts[: len(self._slots)].copy()
