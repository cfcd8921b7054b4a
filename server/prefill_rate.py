"""How long a token of a prompt takes, by the prompts so far: `PrefillRate`.

An exponentially weighted mean: a machine gets busy, a model's attention slower with length. Knows
no response; whoever has one says what it took.
"""

from __future__ import annotations

# Shorter ones take as long as a step takes, whatever their length.
MIN_TOKENS = 32
_WEIGHT = 0.3


class PrefillRate:
    """Milliseconds per token that was computed."""

    def __init__(self) -> None:
        self._ms_per_token: float | None = None

    def observe(self, tokens: int, milliseconds: float) -> None:
        """So many tokens took so long; of few nothing is learnt."""
        if tokens < MIN_TOKENS or milliseconds <= 0:
            return
        rate = milliseconds / tokens
        before = self._ms_per_token
        self._ms_per_token = rate if before is None else before + _WEIGHT * (rate - before)

    def predict(self, tokens: int) -> float | None:
        """Milliseconds that so many tokens are likely to take; None before anything was seen."""
        return None if self._ms_per_token is None else round(self._ms_per_token * tokens, 1)
