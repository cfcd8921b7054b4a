"""What a GPU is to reach, G1 to G7: the numbers that count, and whether they were reached.

Knows no measurement: a goal is a name, a unit and two bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Goal:
    """A measure with its bounds.

    unit: "%" of 1, "x" for a ratio, "ms". at_least: more is better.
    """

    what: str
    unit: str
    floor: float
    stretch: float
    at_least: bool = True

    def reached(self, value: float) -> str:
        """ "stretch", "floor" or "missed"; a value that is not a number is missed."""
        sign = 1 if self.at_least else -1
        if sign * value >= sign * self.stretch:
            return "stretch"
        return "floor" if sign * value >= sign * self.floor else "missed"

    def shown(self, value: float) -> str:
        """The value in its unit."""
        match self.unit:
            case "%":
                return f"{value:.1%}"
            case "x":
                return f"{value:.2f} x"
            case _:
                return f"{value:.3f} {self.unit}"

    def line(self, name: str, value: float, *, judged: bool = True) -> str:
        """For the table."""
        bound = "at least" if self.at_least else "at most"
        outcome = self.reached(value)
        verdict = f": {'MISSED' if outcome == 'missed' else outcome}" if judged else ""
        return (
            f"{name}  {self.what:<58}{self.shown(value):>11}   {bound} {self.shown(self.floor)}, "
            f"stretch {self.shown(self.stretch)}{verdict}"
        )


GOALS: Mapping[str, Goal] = MappingProxyType(
    {
        "G1": Goal("decode attention, 64 x 8k: of the memory's bandwidth", "%", 0.70, 0.82),
        "G2": Goal("decode attention, 1 x 64k: of the memory's bandwidth", "%", 0.40, 0.65),
        "G3": Goal("64 x (4,096 shared + 128): cascade over plain", "x", 4.0, 8.0),
        "G4": Goal("decode attention, 64 x 8k: INT8 KV over 16 bit", "x", 1.5, 1.8),
        "G5": Goal("step of one row, 135M, CUDA graph", "ms", 1.5, 0.7, at_least=False),
        "G6": Goal("idle between steps, 64 running", "%", 0.15, 0.05, at_least=False),
        "G7": Goal("prefill attention 16k, causal: of the matrix rate", "%", 0.50, 0.65),
    }
)
