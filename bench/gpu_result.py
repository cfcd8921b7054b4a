"""What a run of the GPU benchmark came to: checks, ceilings, times, and the goals' values.

Knows no device: everything here is a number that was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from radixchat.bench.gpu_ceilings import Ceilings
from radixchat.bench.gpu_check import Check
from radixchat.bench.gpu_engine import EngineTiming
from radixchat.bench.gpu_goals import GOALS
from radixchat.bench.gpu_timing import Timing
from radixchat.bench.provenance import facts


@dataclass(slots=True)
class GpuResult:
    """One run, as far as it has come. timings, engine: by what they are asked for, a goal or a
    case."""

    device: str
    versions: Mapping[str, str]
    checks: list[Check] = field(default_factory=list)
    ceilings: Ceilings | None = None
    timings: dict[str, list[Timing]] = field(default_factory=dict)
    engine: dict[str, EngineTiming] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """The device's name for a file."""
        return re.sub(r"[^a-z0-9]+", "-", self.device.lower()).strip("-") or "unknown"

    def goals(self) -> Iterator[tuple[str, float]]:
        """The goals that were measured, in order."""
        if self.ceilings is not None:
            yield from _kernel_goals(self.timings, self.ceilings)
        if "G5" in self.engine:
            yield "G5", self.engine["G5"].step_ms
        if "G6" in self.engine:
            yield "G6", self.engine["G6"].idle

    def goal_lines(self, *, judged: bool) -> list[str]:
        """The table of goals."""
        return [GOALS[name].line(name, value, judged=judged) for name, value in self.goals()]

    def faults(self, *, judged: bool) -> list[str]:
        """What is wrong; judged: a missed floor is."""
        wrong = [check.name for check in self.checks if not check.passed]
        faults = [f"wrong: {', '.join(wrong)}"] if wrong else []
        missed = [name for name, value in self.goals() if GOALS[name].reached(value) == "missed"]
        if judged and missed:
            faults.append(f"below the floor: {', '.join(missed)}")
        return faults

    def as_document(self) -> dict[str, object]:
        """For JSON."""
        document = facts("gpu", 0.0, device=self.device, **self.versions)
        document["checks"] = [asdict(check) | {"passed": check.passed} for check in self.checks]
        if self.ceilings is not None:
            document["ceilings"] = asdict(self.ceilings)
            document["timings"] = {
                name: [self._timing(timing, self.ceilings) for timing in timings]
                for name, timings in self.timings.items()
            }
        document["engine"] = {name: asdict(timing) for name, timing in self.engine.items()}
        document["goals"] = {
            name: {"value": value, "reached": GOALS[name].reached(value)}
            for name, value in self.goals()
        }
        document["seconds"] = self.seconds
        return document

    @staticmethod
    def _timing(timing: Timing, ceilings: Ceilings) -> dict[str, object]:
        shares = {
            "of_bandwidth": timing.of_bandwidth(ceilings),
            "of_matrix_rate": timing.of_matrix_rate(ceilings),
        }
        return asdict(timing) | shares


def _kernel_goals(
    timings: Mapping[str, Sequence[Timing]], ceilings: Ceilings
) -> Iterator[tuple[str, float]]:
    """Of the first timing of each goal, which is our kernel; of G3 the second is the cascade."""
    for name in ("G1", "G2"):
        if name in timings:
            yield name, timings[name][0].of_bandwidth(ceilings)
    if "G3" in timings:
        plain, cascade = timings["G3"][:2]
        yield "G3", plain.ms / cascade.ms
    if "G1" in timings and "G4" in timings:
        yield "G4", timings["G1"][0].ms / timings["G4"][0].ms
    if "G7" in timings:
        yield "G7", timings["G7"][0].of_matrix_rate(ceilings)
