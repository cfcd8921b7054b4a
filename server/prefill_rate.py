"""How long a token of a prompt takes, by the prompts so far: `PrefillRate`.

Medians of the last ones: a first prompt that something was compiled for, or one beside a busy
program, does not count. Knows no response; whoever has one says what it took.
"""

from __future__ import annotations

from collections import deque
from statistics import median

# Shorter ones take as long as a step takes, whatever their length.
MIN_TOKENS = 32
_REMEMBERED = 9


class PrefillRate:
    """Milliseconds that a prompt takes: so many per token that is computed, but never below a step.

    A short prompt tells what a step takes, and that a token takes no longer than its share of it:
    so the first turns correct a first prompt that took seconds, as it does in a cold process.
    """

    def __init__(self) -> None:
        self._long: deque[float] = deque(maxlen=_REMEMBERED)  # ms per token
        self._short: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)  # tokens, ms

    def observe(self, tokens: int, milliseconds: float) -> None:
        """So many tokens took so long."""
        if milliseconds <= 0:
            return
        if tokens >= MIN_TOKENS:
            self._long.append(milliseconds / tokens)
        elif tokens > 0:
            self._short.append((tokens, milliseconds))

    def predict(self, tokens: int) -> float | None:
        """Milliseconds that so many tokens are likely to take; None before a long prompt was."""
        if not self._long:
            return None
        per_token, step = median(self._long), 0.0
        if self._short:
            per_token = min(per_token, median(ms / count for count, ms in self._short))
            step = median(ms for _, ms in self._short)
        return round(max(step, per_token * tokens), 1) if tokens > 0 else 0.0
