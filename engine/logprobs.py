"""What the model thought of a token: `TokenLogprob`. A value; knows no request and no text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Log-probabilities (natural) at one position, of the model's own distribution.

    Before temperature, penalties, bans and grammar. token: the one that stands there, with its
    logprob and its rank, 1 for the most likely. top: the most likely ids with theirs, best first.
    """

    token: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()
