"""`OfflineOptimum`: what the best possible cache of a capacity would have found (Belady's MIN).

Which optimum. The rules of serving are those of `reference_lru.py`, but victims are chosen with
knowledge of the whole trace: while a request is served, all units of its path (prompt, and output
without the last unit) are in the cache together; between requests anything may be dropped; found
is never a prompt's last unit; a request larger than the capacity finds and changes nothing. `run`
maximises the number of found units over the whole trace.

Why it is exact. Look at two consecutive uses of a unit, by requests r < s. Keeping it from r to s
gains one found unit if s may find it, else nothing, for s makes it resident anyway. A set of kept
intervals (r, s) is possible if and only if for every request t the kept ones with r < t < s and
the units of t are no more than the capacity. Sweep over t; where there are too many, some interval
that spans t has to go, and of any choice an exchange for the one that ends last is no worse: before
t everything was possible already, and after t it is in the way at least as long. That is MIN, with
an interval that gains nothing ending never.

Leaf first. A parent is used whenever its child is, so where every use may find the parent, its next
use is no later than the child's; with ties broken deepest first MIN drops children before parents
by itself, and a prefix tree attains it. There is one exception: requests that use a parent without
finding it, because it is their prompt's last unit or because they compute it again as output.
Between two uses of a child it may then pay to drop the parent alone, which no tree can: there `run`
is a bound from above, for any cache. `attained` is the same choice among leaves only, so a tree can
do it; where both agree, which is the rule, it is the optimum.

A cache with pages of many tokens and a cache that recomputes duplicates into pages of their own
obey these rules and stricter ones, so at an equal number of tokens neither finds more.

It works on the runs of `path_tree.py`: the units of a run are always used together, so they have
one next use, and victims leave from the tip of a run. O(uses of runs * log) for each capacity.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from heapq import heappop, heappush

import numpy as np

from radixchat.bench.oracle_result import OracleResult
from radixchat.bench.path_tree import PathTree, Visits
from radixchat.bench.run_lru import RunLru
from radixchat.bench.trace_item import TraceItem, TraceRequest


class OfflineOptimum:
    """The oracles of one trace, whose paths are gathered once, at any capacity.

    infinite: what an unlimited cache would have found. distinct_units: what it holds at the end.
    """

    def __init__(self, trace: Iterable[TraceItem]) -> None:
        tree = PathTree()
        found = [tree.add(item) for item in trace if isinstance(item, TraceRequest)]
        self.infinite = OracleResult(np.array(found, np.int64), 0)
        self._visits = tree.freeze()
        self.distinct_units = sum(self._visits.length)

    def run(self, capacity_units: int) -> OracleResult:
        """The most that any cache of this capacity can find."""
        return self._replay(capacity_units, leaves_only=False)

    def attained(self, capacity_units: int) -> OracleResult:
        """What a prefix tree finds that knows the future; equal to `run` as a rule."""
        return self._replay(capacity_units, leaves_only=True)

    def lru(self, capacity_units: int) -> OracleResult:
        """What `reference_lru` finds and evicts, at a fraction of its cost in long traces."""
        cache = RunLru(self._visits, capacity_units)
        found = [cache.serve(request) for request in range(len(self._visits))]
        return OracleResult(np.array(found, np.int64), cache.num_evicted)

    def _replay(self, capacity: int, leaves_only: bool) -> OracleResult:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; it must be at least 1 unit")
        cache = _ForesightCache(self._visits, capacity, leaves_only)
        found = [cache.serve(request) for request in range(len(self._visits))]
        return OracleResult(np.array(found, np.int64), cache.num_evicted)


class _ForesightCache:
    """Runs in a cache whose victims are those with the latest next use.

    Of each run: resident, its units in the cache, always the first of it; user, the last request
    that used it; next_use, the request that will find it next; below, how many runs directly
    below it are resident. Of two runs with one next use both are on its path, so either may go.
    """

    def __init__(self, visits: Visits, capacity: int, leaves_only: bool) -> None:
        num_runs = len(visits.length)
        self.num_evicted = 0
        self._visits = visits
        self._capacity = capacity
        self._leaves_only = leaves_only
        self._next_uses = _next_uses(visits, capacity)
        self._num_resident = 0
        self._resident = [0] * num_runs
        self._user = [-1] * num_runs
        self._next_use = [0] * num_runs
        self._below = [0] * num_runs
        self._heap: list[tuple[int, int]] = []  # (-next use, run)

    def serve(self, request: int) -> int:
        """Serve one request; returns how many units of its prompt were found."""
        visits = self._visits
        if visits.size[request] > self._capacity:
            return 0
        begin, end = visits.first[request], visits.first[request + 1]
        runs = visits.runs[begin:end]
        findable = visits.findable[request]
        found = resident = 0
        for run in runs:
            self._user[run] = request
            resident += self._resident[run]
            if visits.end[run] <= findable:
                found += self._resident[run]
        self._make_room(request, visits.size[request] - resident)
        for run, next_use in zip(runs, self._next_uses[begin:end], strict=True):
            parent = visits.parent[run]
            if self._resident[run] == 0 and parent >= 0:
                self._below[parent] += 1
            self._resident[run] = visits.length[run]
            self._next_use[run] = next_use
            if not self._leaves_only or run == runs[-1]:
                heappush(self._heap, (-next_use, run))
        self._num_resident += visits.size[request] - resident
        return found

    def _make_room(self, request: int, num_units: int) -> None:
        """Drop units that `request` doesn't use until `num_units` more have room."""
        missing = self._num_resident + num_units - self._capacity
        while missing > 0:
            order, run = self._heap[0]
            if not self._is_victim(run, -order, request):
                heappop(self._heap)
                continue
            count = min(self._resident[run], missing)
            missing -= count
            self.num_evicted += count
            self._num_resident -= count
            self._resident[run] -= count
            parent = self._visits.parent[run]
            if self._resident[run] == 0 and parent >= 0:
                self._below[parent] -= 1
                if self._leaves_only and self._below[parent] == 0:
                    heappush(self._heap, (-self._next_use[parent], parent))

    def _is_victim(self, run: int, next_use: int, request: int) -> bool:
        """Whether an entry of the heap still counts."""
        return (
            self._resident[run] > 0
            and self._next_use[run] == next_use
            and self._user[run] != request
            and not (self._leaves_only and self._below[run])
        )


def _next_uses(visits: Visits, capacity: int) -> array[int]:
    """Of each visit the request that uses the run next, len(visits) where that gains nothing.

    Requests that are larger than the capacity use nothing.
    """
    never = len(visits)
    next_uses = array("q", [never]) * len(visits.runs)
    upcoming = [never] * len(visits.length)
    for request in reversed(range(len(visits))):
        if visits.size[request] > capacity:
            continue
        for visit in range(visits.first[request], visits.first[request + 1]):
            run = visits.runs[visit]
            next_uses[visit] = upcoming[run]
            gains = visits.end[run] <= visits.findable[request]
            upcoming[run] = request if gains else never
    return next_uses
