"""`ReferenceLru`: the least recently used units of a trace, simulated the obvious way.

The yardstick of `PrefixCache` with policy `lru` and pages of one unit: both must evict the same
units in the same order. It shares no code and no idea with `radix/`: no runs, no splits, no heap,
no pages; every unit is an object of its own in one list ordered by last use. About 0.5 us and
500 bytes a unit, so a trace of single tokens takes its time.

The rules, which are those of the serial replay:

- A unit is identified by its whole prefix and its namespace.
- A request finds the longest cached prefix of its prompt, never the last unit: something must be
  computed. What it found cannot be evicted while it is served.
- It then needs room for all its other units together, the output's too (all but the last, whose
  KV is never computed), also for those that lie in the cache unfound: it computes them again
  into a place of its own, and gives the duplicate back at its end.
- Room is made by evicting the least recently used unit, of those used together the deepest: so
  a unit never goes before the units below it.
- At its end all its units count as used now.
- A request larger than the whole capacity finds nothing and changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict

from radixchat.bench.trace_item import TraceRequest


class Unit:
    """A cached unit: its value below its parent, or at the top of a namespace."""

    __slots__ = ("parent", "value")

    def __init__(self, parent: Unit | bytes, value: int) -> None:
        self.parent = parent
        self.value = value

    def prefix(self) -> tuple[bytes, tuple[int, ...]]:
        """The namespace, and the values from the top down to this unit."""
        values = [self.value]
        above = self.parent
        while isinstance(above, Unit):
            values.append(above.value)
            above = above.parent
        return above, tuple(reversed(values))


class ReferenceLru:
    """A cache of `capacity` units.

    evicted: the units that the last request drove out, in order. num_evicted: of all requests.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; it must be at least 1 unit")
        self.capacity = capacity
        self.evicted: list[Unit] = []
        self.num_evicted = 0
        self._units: dict[tuple[Unit | bytes, int], Unit] = {}
        self._order: OrderedDict[Unit, None] = OrderedDict()

    def __len__(self) -> int:
        """Units in the cache."""
        return len(self._units)

    def serve(self, request: TraceRequest) -> int:
        """Serve one request; returns how many leading units of its prompt were found."""
        assert len(request.prompt) > 0, "a prompt has at least one unit"
        self.evicted = []
        path: list[int] = request.prompt.tolist() + request.output[:-1].tolist()
        if len(path) > self.capacity:
            return 0
        parent: Unit | bytes = request.namespace
        used: list[Unit] = []
        for value in path[: len(request.prompt) - 1]:
            unit = self._units.get((parent, value))
            if unit is None:
                break
            used.append(unit)
            parent = unit
        for unit in used:
            del self._order[unit]  # out of reach until it is used again, below
        found = len(used)
        self._make_room(len(path) - found)
        for value in path[found:]:
            unit = self._units.get((parent, value))
            if unit is None:
                unit = self._units[parent, value] = Unit(parent, value)
            used.append(unit)
            parent = unit
        for unit in reversed(used):
            self._order.pop(unit, None)
            self._order[unit] = None
        return found

    def _make_room(self, num_units: int) -> None:
        while len(self._units) + num_units > self.capacity:
            unit, _ = self._order.popitem(last=False)
            del self._units[unit.parent, unit.value]
            self.evicted.append(unit)
            self.num_evicted += 1
