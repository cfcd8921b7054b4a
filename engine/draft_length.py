"""How many tokens to guess at a time: as many as paid so far.

Owns one running estimate, how often a guessed token is right, and the length that follows from it.
Knows no tokens and no model.
"""

from __future__ import annotations

# Measured with 135M parameters in 4-bit blocks on two cores at context 512: 1, 3, 5, 8, 16 and 32
# rows, one of them the token that is computed anyway, take 4.3, 4.9, 5.9, 8.0, 14.4 and 27.8 ms. A
# length is worth it from where (1 - p ** rows) / time exceeds that of the one before; the first
# already from a little less, for the estimate is of few drafts.
LENGTHS = (0, 2, 4, 7, 15, 31)
WORTH = (0.0, 0.1, 0.65, 0.88, 0.97, 0.995)
# A length is left downwards only when p is so much below what it is worth.
HYSTERESIS = 0.04
# What a draft told weighs this much less after each later one.
MEMORY = 0.85
# Where no draft pays, every so many chances one is tried all the same.
PROBE_EVERY = 24


class DraftLength:
    """The length of drafts of one kind."""

    def __init__(self, expected: float) -> None:
        """Start as if 8 tokens had been guessed, and this share of them rightly."""
        self._tried = 8.0
        self._right = 8.0 * expected
        self._skipped = 0
        self._level = 0
        self._settle()

    def next(self) -> int:
        """How many tokens to guess now."""
        if self._level == 0:
            self._skipped = (self._skipped + 1) % PROBE_EVERY
            return LENGTHS[1] if self._skipped == 0 else 0
        return LENGTHS[self._level]

    def report(self, proposed: int, accepted: int) -> None:
        """Of so many tokens proposed, the first `accepted` were right."""
        assert 0 <= accepted <= proposed, (accepted, proposed)
        # What follows the first wrong token was not tried: it might have been right elsewhere.
        self._tried = MEMORY * self._tried + accepted + (accepted < proposed)
        self._right = MEMORY * self._right + accepted
        self._settle()

    def _settle(self) -> None:
        share = self._right / self._tried
        while self._level + 1 < len(LENGTHS) and share >= WORTH[self._level + 1]:
            self._level += 1
        while share < WORTH[self._level] - HYSTERESIS:
            self._level -= 1
