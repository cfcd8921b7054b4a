"""What a generated workload turned out to be: the statistics by which to judge its habits.

Counts what passes by and knows no cache: hit rates belong to `policies.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.trace_item import TraceRequest, TraceSignal
from radixchat.bench.workload_habits import HOUR


@dataclass(frozen=True, slots=True)
class WorkloadSummary:
    """Counts, and quantiles as (median, p90).

    gaps: seconds from one request of a conversation to its next. superseding: requests that
    replace what their conversation had. hours: from the first event to the last.
    """

    conversations: int
    requests: int
    superseding: int
    prompt_tokens: int
    reply_tokens: int
    turns: tuple[float, float]
    single_turn: float
    gaps: tuple[float, float]
    within_ten_minutes: float
    signals: Mapping[str, int]
    hours: float

    @staticmethod
    def of(items: Iterable[TraceRequest | TraceSignal]) -> WorkloadSummary:
        """Go through a workload once; raises ValueError when nobody asks anything in it."""
        turns: Counter[str] = Counter()
        latest: dict[str, float] = {}
        gaps: list[float] = []
        signals: Counter[str] = Counter()
        superseding = prompt_tokens = reply_tokens = requests = 0
        time = 0.0
        for item in items:
            time = item.time
            if isinstance(item, TraceSignal):
                signals[item.signal.value] += 1
                continue
            name = item.conversation or ""
            if name in latest:
                gaps.append(time - latest[name])
            latest[name] = time
            turns[name] = max(turns[name], item.turn)
            requests += 1
            superseding += item.superseded is not None
            prompt_tokens += item.num_tokens
            reply_tokens += len(item.output)
        if not requests:
            raise ValueError("the workload has no request")
        counts = np.array(list(turns.values()))
        waits = np.array(gaps or [0.0])
        return WorkloadSummary(
            conversations=len(turns),
            requests=requests,
            superseding=superseding,
            prompt_tokens=prompt_tokens,
            reply_tokens=reply_tokens,
            turns=_quantiles(counts),
            single_turn=float((counts == 1).mean()),
            gaps=_quantiles(waits),
            within_ten_minutes=float((waits < HOUR / 6).mean()),
            signals=dict(signals),
            hours=time / HOUR,
        )

    def lines(self) -> list[str]:
        """Three lines of text."""
        signals = ", ".join(f"{name} {count:,}" for name, count in sorted(self.signals.items()))
        each = self.prompt_tokens / self.requests
        return [
            f"{self.conversations:,} conversations, {self.requests:,} requests "
            f"({self.superseding:,} regenerate, edit or switch back), {self.hours:.1f} h; "
            f"turns: median {self.turns[0]:.0f}, p90 {self.turns[1]:.0f}, "
            f"{self.single_turn:.0%} have one",
            f"{self.prompt_tokens:,} prompt tokens ({each:,.0f} each), "
            f"{self.reply_tokens:,} of replies; between requests: median {self.gaps[0]:.0f} s, "
            f"p90 {self.gaps[1]:.0f} s, {self.within_ten_minutes:.0%} under ten minutes",
            f"signals: {signals or 'none'}",
        ]


def _quantiles(values: NDArray[np.number]) -> tuple[float, float]:
    median, high = np.percentile(values, [50, 90])
    return float(median), float(high)
