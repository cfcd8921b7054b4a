"""What an answer has to look like, as masks over the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Grammar:
    """One answer's grammar and where in it the answer stands."""

    finished = False

    def forced(self, limit: int) -> list[int]:
        """The tokens that come next whatever the model thinks."""
        return []

    def valid_prefix(self, tokens: Sequence[int]) -> int:
        """How many of `tokens` may come next, one after another."""
        return len(tokens)

    def begin_masks(self, draft: Sequence[int]) -> None:
        """Start to compute what may follow now, and after each token of the draft."""

    def masks(self) -> list[NDArray[np.uint32]]:
        """The masks that were begun, 1 + len(draft); waits for them."""
        return []

    def accept(self, token: int) -> None:
        """The answer goes on with this token."""

    def copy(self) -> Grammar:
        """An independent one in the same state."""
        return self
