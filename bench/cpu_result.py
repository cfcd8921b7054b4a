"""What the arms of `bench cpu` came to: as numbers, as a table, as JSON. Measures nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np

from radixchat.bench.cpu_arm import ArmInfo
from radixchat.bench.cpu_goals import (
    Verdict,
    exactness_verdict,
    ratio_verdicts,
    start_verdict,
)
from radixchat.bench.cpu_load import Load

OURS, NO_EXACT, LLAMA_CPP = "ours", "no-exact", "llama-cpp"
TEXT_WIDTH = 80


@dataclass(frozen=True, slots=True)
class CpuResult:
    """One run. arms: by name, ours first. seconds: by load and arm, of each step or prompt.
    starts: by arm, seconds. bandwidth: bytes a second that the threads can read."""

    arms: Mapping[str, ArmInfo]
    seconds: Mapping[Load, Mapping[str, tuple[float, ...]]]
    starts: Mapping[str, tuple[float, ...]]
    bandwidth: float

    def rates(self, arm: str) -> dict[Load, float]:
        """Tokens a second, the median."""
        return {load: load.tokens_per_second(each[arm]) for load, each in self.seconds.items()}

    def bandwidth_share(self, load: Load, arm: str) -> float | None:
        """What a decode step has to read, in its time, of what could be read; None for a prompt."""
        if load.kind == "prefill":
            return None
        info = self.arms[arm]
        needed = load.step_bytes(info.weight_bytes, info.kv_bytes_per_token)
        return needed / median(self.seconds[load][arm]) / self.bandwidth

    def verdicts(self) -> list[Verdict]:
        """Of all goals that this run can judge."""
        ours = self.rates(OURS)
        found: list[Verdict] = []
        if LLAMA_CPP in self.arms:
            found += ratio_verdicts(ours, self.rates(LLAMA_CPP))
        if NO_EXACT in self.arms and ours:
            found.append(exactness_verdict(ours, self.rates(NO_EXACT)))
        if OURS in self.starts:
            found.append(start_verdict(median(self.starts[OURS])))
        return found


def lines(result: CpuResult) -> Iterator[str]:
    """The table: a line a load, a column an arm."""
    others = [name for name in result.arms if name != OURS]
    for name, info in result.arms.items():
        yield f"{name}: {info.about}"
    yield ""
    titles = "".join(f"{name:>11}  ratio" for name in others)
    yield f"{'tokens a second':<20}{OURS:>9}{titles}{'MB a step':>11}  of the bandwidth"
    for load in result.seconds:
        yield f"{load.name:<20}" + _rates(result, load, others) + _reads(result, load)
    if result.starts:
        starts = {name: f"{median(result.starts[name]):.2f}" for name in result.starts}
        rest = "".join(f"{starts.get(name, ''):>11}{'':7}" for name in others)
        yield f"{'start to token, s':<20}{starts[OURS]:>9}{rest}".rstrip()
    yield ""
    yield from textwrap.wrap(
        f"Memory: {result.bandwidth / 1e9:.1f} GB/s, read by all threads together. What a decode"
        " step has to read is all weights, once, and the KV of each answer; the share is ours.",
        TEXT_WIDTH,
    )


def _rates(result: CpuResult, load: Load, others: list[str]) -> str:
    ours = result.rates(OURS)[load]
    text = f"{ours:>9.1f}"
    for name in others:
        rate = result.rates(name)[load]
        text += f"{rate:>11.1f}{ours / rate:>7.2f}"
    return text


def _reads(result: CpuResult, load: Load) -> str:
    share = result.bandwidth_share(load, OURS)
    if share is None:
        return ""
    info = result.arms[OURS]
    megabytes = load.step_bytes(info.weight_bytes, info.kv_bytes_per_token) / 1e6
    return f"{megabytes:>11.1f}{share:>18.0%}"


def as_document(result: CpuResult, verdicts: Sequence[Verdict]) -> dict[str, object]:
    """The keys that follow the facts in the JSON line."""
    return {
        "bandwidth_gb_per_s": round(result.bandwidth / 1e9, 2),
        "arms": {name: asdict(info) for name, info in result.arms.items()},
        "loads": {load.key: _load_document(result, load) for load in result.seconds},
        "start_s": {
            name: {"median": round(median(all_s), 3), "all": [round(s, 3) for s in all_s]}
            for name, all_s in result.starts.items()
        },
        "goals": [each.as_dict() for each in verdicts],
    }


def _load_document(result: CpuResult, load: Load) -> dict[str, object]:
    document: dict[str, object] = dict(asdict(load))
    for name, info in result.arms.items():
        seconds = result.seconds[load][name]
        # Of the slow quarter of the steps, and of the fast one.
        slow, fast = (load.tokens_per_second([s]) for s in np.percentile(seconds, (75, 25)))
        share = result.bandwidth_share(load, name)
        decodes = share is not None
        document[name] = {
            "tokens_per_second": round(load.tokens_per_second(seconds), 2),
            "slow_quarter": round(slow, 2),
            "fast_quarter": round(fast, 2),
            "step_bytes": load.step_bytes(info.weight_bytes, info.kv_bytes_per_token)
            if decodes
            else None,
            "bandwidth_share": round(share, 4) if share is not None else None,
            "ours_to_it": round(result.rates(OURS)[load] / result.rates(name)[load], 4),
        }
    return document
