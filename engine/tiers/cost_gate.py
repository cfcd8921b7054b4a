"""`CostGate`: whether to bring a page back, or to compute its tokens again.

What each has taken lately decides: microseconds per token, as exponentially weighted means. So a
slow disk, a busy network or a quick GPU turn a tier off by themselves. A tier that was found too
slow is tried again now and then with little at stake. Knows no page and no tier's inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from radixchat.radix.tiers import Tier

GATES = ("measured", "always", "never")
# Smaller steps say what a step costs, not a token.
MIN_TOKENS = 32
_WEIGHT = 0.25
# Of what computing a span would take, how long it is waited for; a thread may begin a while later.
PATIENCE = 0.5
MIN_PATIENCE_S = 0.02
# Of a tier that is too slow, every so many-th span is tried, with one page.
PROBE_EVERY = 64
# Operations a second, more than any machine has: what computing takes at least, before it was seen.
PEAK = {"cuda": 2e15, "cpu": 2.5e11}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a span comes back, and how many of its pages; why not, else."""

    pages: int
    reason: str | None = None


class CostGate:
    """Decides for one engine."""

    def __init__(self, mode: str, least_prefill_us: float) -> None:
        """mode: "measured"; "always" and "never" measure too, and do not mind.

        least_prefill_us: what a token takes to compute, as long as nobody knows.
        """
        assert mode in GATES, f"gate is {mode!r}"
        self.mode = mode
        self._assumed_us = least_prefill_us
        self._prefill_us: float | None = None
        self._load_us: dict[Tier, float] = {}
        self._refused: dict[Tier, int] = {}

    @property
    def prefill_us(self) -> float:
        """What a token of a prompt takes to compute, in microseconds."""
        return self._assumed_us if self._prefill_us is None else self._prefill_us

    def load_us(self, tier: Tier) -> float | None:
        """What a token takes to come from a tier; None: nothing has come from there."""
        return self._load_us.get(tier)

    def computed(self, tokens: int, seconds: float) -> None:
        """A step has computed so many tokens."""
        if tokens >= MIN_TOKENS:
            self._prefill_us = _mean(self._prefill_us, seconds * 1e6 / tokens)

    def loaded(self, tier: Tier, tokens: int, seconds: float) -> None:
        """So many tokens have come from a tier."""
        if tokens > 0:
            self._load_us[tier] = _mean(self._load_us.get(tier), seconds * 1e6 / tokens)

    def patience(self, tokens: int) -> float:
        """Seconds after which whoever waits for so many tokens had better compute the rest."""
        if self.mode == "always":
            return math.inf
        return max(MIN_PATIENCE_S, PATIENCE * self.prefill_us * 1e-6 * tokens)

    def admits(self, tier: Tier, pages: int) -> Verdict:
        """How many of the span's pages are to come from the tier."""
        objection = self.objection(tier)
        if objection is None or self.mode == "never":
            return Verdict(0 if objection else pages, objection)
        refused = self._refused.get(tier, 0) + 1
        self._refused[tier] = refused
        if refused % PROBE_EVERY == 0:
            return Verdict(min(pages, 1))
        return Verdict(0, objection)

    def objection(self, tier: Tier) -> str | None:
        """Why nothing is to come from the tier now, but to try it again; None: it may come."""
        load_us = self._load_us.get(tier)
        if self.mode == "never":
            return "the gate is shut"
        if self.mode == "always" or load_us is None or load_us < self.prefill_us:
            return None
        name, computing_us = tier.name.lower(), self.prefill_us
        return f"{name} takes {load_us:.0f} us a token, computing {computing_us:.0f}"


def _mean(before: float | None, now: float) -> float:
    return now if before is None else before + _WEIGHT * (now - before)
