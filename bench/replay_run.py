"""`replay`: a trace through every cache that was asked for, and through the oracles.

One pass over the trace for all oracles, which keep its runs, and one for each cache, so that
memory holds one cache at a time. Serving is serial: a request ends before the next one begins.
Knows neither the command line nor how results are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.arm import CacheArm
from radixchat.bench.capacity import default_capacities, show_tokens
from radixchat.bench.engines import LLAMACPP_SLOTS, make_arm
from radixchat.bench.llamacpp_slots import LlamaCppSlots
from radixchat.bench.oracles import OfflineOptimum
from radixchat.bench.ours import OurCache
from radixchat.bench.provenance import commit, machine, today
from radixchat.bench.replay_census import Census
from radixchat.bench.replay_progress import Watch
from radixchat.bench.replay_result import ArmResult, ReplayResult
from radixchat.bench.trace import Trace, TraceError, TraceItem, TraceRequest

_UNLIMITED = 2**80  # units; no trace has as many, and no page


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What is to be run. No capacities: shares of the trace's distinct tokens are tried.

    page_size in units of the trace. taking_turns: see TraceFacts; it is only passed on, as is
    command: see ReplayResult.
    """

    capacities: tuple[int | None, ...] | None
    engines: tuple[str, ...]
    policies: tuple[str, ...]
    page_size: int
    taking_turns: int | None
    command: str = ""

    def caches(self) -> Iterator[tuple[str, str | None]]:
        """Every engine with its policy; only ours has several to choose from."""
        for engine in self.engines:
            for policy in self.policies if engine == "ours" else (None,):
                yield engine, policy


def replay(trace: Trace, plan: ReplayPlan, watch: Watch) -> ReplayResult:
    """Run everything. Raises TraceError where the trace cannot be read or holds no request."""
    census = Census(trace.unit_tokens)
    optimum = OfflineOptimum(census.counted(watch("reading the trace", trace, None)))
    if not len(census):
        quiet = f"; {trace.quiet_lines:,} of its lines ask nothing" if trace.quiet_lines else ""
        raise TraceError(trace.name, 0, f"the trace holds no request{quiet}")
    facts = census.facts(trace, optimum.distinct_units, plan.taking_turns)
    least = plan.page_size * trace.unit_tokens
    roomy = census.roomy_units(plan.page_size) * trace.unit_tokens
    capacities = plan.capacities or default_capacities(facts.distinct_tokens, least, roomy)
    passes = _Passes(trace, plan, watch, census, optimum)
    arms = tuple(arm for capacity in capacities for arm in passes.at(capacity))
    chosen = plan.capacities is not None
    return ReplayResult(
        facts, passes.infinite, arms, chosen, commit(), machine(), today(), plan.command
    )


class _Passes:
    """The passes that come after the first, one capacity after the other."""

    def __init__(
        self, trace: Trace, plan: ReplayPlan, watch: Watch, census: Census, optimum: OfflineOptimum
    ) -> None:
        self.infinite = census.hit_rate(optimum.infinite.cached_units)
        self._trace = trace
        self._plan = plan
        self._watch = watch
        self._census = census
        self._optimum = optimum

    def at(self, capacity: int | None) -> Iterator[ArmResult]:
        """Every cache at one capacity in tokens; the oracles first."""
        units = _UNLIMITED if capacity is None else capacity // self._trace.unit_tokens
        if capacity is None:
            reference = best = self.infinite
        else:
            reference = self._census.hit_rate(self._optimum.lru(units).cached_units)
            best = self._census.hit_rate(self._optimum.run(units).cached_units)
        for engine, policy in self._plan.caches():
            arm = make_arm(
                engine,
                capacity_units=self._units_to_make(engine, units),
                page_size=self._plan.page_size,
                policy=policy or self._plan.policies[0],
            )
            name = " ".join(filter(None, (engine, policy, show_tokens(capacity))))
            cached = _served(arm, self._watch(name, self._trace, len(self._census)))
            yield self._result(arm, policy, capacity, cached, reference, best)

    def _units_to_make(self, engine: str, units: int) -> int:
        """What a cache of `units` is made with: ours makes its pages, and none that stays unused.

        The others only count, and llama.cpp's slots share nothing: they may need far more.
        """
        distinct, page_size = self._optimum.distinct_units, self._plan.page_size
        enough = self._census.unlimited_units(distinct, page_size)
        return min(units, enough) if engine == "ours" else max(units, page_size)

    def _result(
        self,
        arm: CacheArm,
        policy: str | None,
        capacity: int | None,
        cached_units: NDArray[np.int64],
        reference: float,
        best: float,
    ) -> ArmResult:
        ours = arm if isinstance(arm, OurCache) else None
        bytes_per_unit = ours.index_bytes_per_unit() if ours else None
        unit = self._trace.unit_tokens
        parts = LLAMACPP_SLOTS if isinstance(arm, LlamaCppSlots) else 1
        return ArmResult(
            engine=arm.name,
            policy=policy,
            page_size=arm.page_size * unit,
            capacity_tokens=capacity,
            hit_rate=self._census.hit_rate(cached_units),
            reference_lru=reference,
            optimum=best,
            infinite=self.infinite,
            evicted_tokens=arm.evicted_units * unit,
            us_per_match=ours.us_per_match if ours else None,
            us_per_insert=ours.us_per_insert if ours else None,
            us_per_evicted_page=ours.us_per_evicted_page if ours else None,
            index_bytes_per_token=None if bytes_per_unit is None else bytes_per_unit / unit,
            per_turn=self._census.per_turn(cached_units),
            too_long=arm.too_long,
            roomy_tokens=self._census.roomy_units(self._plan.page_size) * parts * unit,
            ignores=arm.ignores,
        )


def _served(arm: CacheArm, items: Iterator[TraceItem]) -> NDArray[np.int64]:
    """How many units each request found. Returns int64 [requests]."""
    found = []
    for item in items:
        if isinstance(item, TraceRequest):
            found.append(arm.serve(item))
        else:
            arm.signal(item)
    return np.array(found, np.int64)
