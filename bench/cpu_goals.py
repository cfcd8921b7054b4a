"""What `bench cpu` is to reach: ratios to the peer, seconds of a start, the cost of exactness.

A floor that is missed fails the command; a stretch is what we want to claim. Knows no arm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from radixchat.bench.cpu_load import Load

# The goal, its load, the ratio to the peer's tokens a second: floor and stretch.
RATIOS = (
    ("T1", Load("decode", 16), 0.8, 1.2),
    ("T1", Load("decode", 1024), 1.0, 2.0),
    ("T2", Load("prefill", 512), 2.0, 3.0),
    ("T3", Load("decode", 512, 8), 2.0, 3.0),
)
# Seconds, floor and stretch.
START = (6.0, 3.0)
# The share of the tokens a second that exactness may take.
EXACTNESS = (0.10, 0.0)

Rates = Mapping[Load, float]  # tokens a second


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal and what was measured. at_least: more is better. unit: of "%" the numbers are shares
    of 1, "x" is a ratio."""

    goal: str
    what: str
    value: float
    floor: float
    stretch: float
    at_least: bool
    unit: Literal["x", "s", "%", ""]

    @property
    def reached(self) -> Literal["stretch", "floor", "missed"]:
        """The best of the two bounds that the value keeps."""
        sign = 1 if self.at_least else -1
        if sign * self.value >= sign * self.stretch:
            return "stretch"
        return "floor" if sign * self.value >= sign * self.floor else "missed"

    def line(self) -> str:
        """For the terminal."""
        floor, stretch = self._shown(self.floor), self._shown(self.stretch)
        bound = "at least" if self.at_least else "at most"
        outcome = "MISSED" if self.reached == "missed" else f"{self.reached} reached"
        return (
            f"{self.goal}  {self.what:<36}{self._shown(self.value):>8}   {bound} {floor}, stretch"
            f" {stretch}: {outcome}"
        )

    def _shown(self, value: float) -> str:
        if self.unit == "%":
            return f"{value:.0%}"
        if self.unit == "x":
            return f"{value:.3g} ×"
        return f"{value:.1f} s" if self.unit == "s" else f"{value:.3f}"

    def as_dict(self) -> dict[str, object]:
        """For the JSON line."""
        return asdict(self) | {"value": round(self.value, 4), "reached": self.reached}


def ratio_verdicts(ours: Rates, peer: Rates) -> Iterator[Verdict]:
    """T1, T2, T3, of those loads that both have."""
    for goal, load, floor, stretch in RATIOS:
        if load in ours and load in peer:
            ratio = ours[load] / peer[load]
            yield Verdict(goal, f"{load.name}, ours to the peer", ratio, floor, stretch, True, "x")


def start_verdict(seconds: float) -> Verdict:
    """L8."""
    return Verdict("L8", "start to first token", seconds, *START, at_least=False, unit="s")


def exactness_verdict(exact: Rates, free: Rates) -> Verdict:
    """T5, at the load where exactness costs most; both have the same loads, at least one."""
    costs = {load: 1 - exact[load] / free[load] for load in exact}
    worst = max(costs, key=costs.__getitem__)
    what = f"cost of exactness, {worst.name}"
    return Verdict("T5", what, costs[worst], *EXACTNESS, at_least=False, unit="%")
