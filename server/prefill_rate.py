"""How long a token of a prompt takes, by the prompts so far: `PrefillRate`.

The median of the last ones: a first prompt that something was compiled for, or one beside a busy
program, does not count. Knows no response; whoever has one says what it took.
"""

from __future__ import annotations

from collections import deque
from statistics import median

# Shorter ones take as long as a step takes, whatever their length.
MIN_TOKENS = 32
_REMEMBERED = 9


class PrefillRate:
    """Milliseconds per token that was computed."""

    def __init__(self) -> None:
        self._ms_per_token: deque[float] = deque(maxlen=_REMEMBERED)

    def observe(self, tokens: int, milliseconds: float) -> None:
        """So many tokens took so long; of few nothing is learnt."""
        if tokens >= MIN_TOKENS and milliseconds > 0:
            self._ms_per_token.append(milliseconds / tokens)

    def predict(self, tokens: int) -> float | None:
        """Milliseconds that so many tokens are likely to take; None before anything was seen."""
        if not self._ms_per_token:
            return None
        return round(median(self._ms_per_token) * tokens, 1)
