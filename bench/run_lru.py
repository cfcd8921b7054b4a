"""`RunLru`: the reference LRU at the cost of runs instead of units.

The same simulation as `reference_lru.py`, by the same rules, on the runs of `path_tree.py`: a run's
units are always used together, so one entry in the order stands for them, and they leave from its
tip. A test holds the two equal; this one is for traces of single tokens, where a prompt of 10,000
units is some ten runs.
"""

from __future__ import annotations

from collections import OrderedDict

from radixchat.bench.path_tree import Visits


class RunLru:
    """A cache of `capacity` units that serves the requests of `visits` by their numbers."""

    def __init__(self, visits: Visits, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; it must be at least 1 unit")
        self.num_evicted = 0
        self._visits = visits
        self._capacity = capacity
        self._num_resident = 0
        self._resident = [0] * len(visits.length)  # of each run, always its first units
        self._order: OrderedDict[int, None] = OrderedDict()

    def serve(self, request: int) -> int:
        """Serve one request; returns how many leading units of its prompt were found."""
        visits = self._visits
        size = visits.size[request]
        if size > self._capacity:
            return 0
        runs = visits.runs[visits.first[request] : visits.first[request + 1]]
        found = 0
        for run in runs:
            if visits.end[run] > visits.findable[request] or self._resident[run] == 0:
                break
            found += self._resident[run]
            del self._order[run]  # out of reach until it is used again, below
            if self._resident[run] < visits.length[run]:
                break
        self._make_room(size - found)
        for run in reversed(runs):
            self._order.pop(run, None)
            self._order[run] = None
            self._num_resident += visits.length[run] - self._resident[run]
            self._resident[run] = visits.length[run]
        return found

    def _make_room(self, num_units: int) -> None:
        missing = self._num_resident + num_units - self._capacity
        while missing > 0:
            run = next(iter(self._order))
            count = min(self._resident[run], missing)
            missing -= count
            self.num_evicted += count
            self._num_resident -= count
            self._resident[run] -= count
            if self._resident[run] == 0:
                del self._order[run]
