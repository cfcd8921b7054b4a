"""`PathTree`: all that a trace ever makes resident, as one finished radix tree of runs.

Owns the runs that the offline oracles reason about: the tree is cut wherever a request's found
part or its whole path ends, so every request that uses a unit of a run uses all of it, and finds
either all of it or none of it worth finding. Knows no capacity and evicts nothing.

    prompts a b c d, a b c e f and output g h, cut where the found part and the path end:

        [a b c] ─ [d]              found part of the first: a b c, path: a b c d
              └── [e] ─ [f g]      of the second:           a b c e,     a b c e f g

Shares no code with `radix/`. Takes memory for each distinct unit once (4 bytes) while it is
built; `freeze` keeps integers for each run only.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from radixchat.bench.arm import UNIT_BYTES, common_units, computed_path
from radixchat.bench.trace_item import TraceRequest


class Run:
    """Units that are always used together. units: int32, as bytes; end: position after them."""

    __slots__ = ("children", "end", "number", "parent", "units")

    def __init__(self, number: int, parent: Run | None, units: bytes, end: int) -> None:
        self.number = number
        self.parent = parent
        self.units = units
        self.end = end
        self.children: dict[int, Run] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """A trace as uses of runs.

    runs: run numbers, request after request, each from the top down; request r's are
    runs[first[r] : first[r + 1]]. size: units of r's path. findable: units that r may find at
    most. Of each run: length, end (the position after it) and parent (-1 at the top).
    """

    runs: array[int]
    first: array[int]
    size: array[int]
    findable: array[int]
    length: array[int]
    end: array[int]
    parent: array[int]

    def __len__(self) -> int:
        """Requests."""
        return len(self.size)


class PathTree:
    """Every path of the requests added so far."""

    def __init__(self) -> None:
        self._roots: dict[bytes, Run] = {}
        self._runs: list[Run] = []
        self._bottoms: list[Run] = []
        self._findable = array("q")

    def add(self, request: TraceRequest) -> int:
        """Add a request's path; returns how many units an unlimited cache would have found.

        Never the prompt's last unit, for something must be computed.
        """
        path = computed_path(request).tobytes()
        findable = len(request.prompt) - 1
        root = self._roots.get(request.namespace)
        if root is None:
            root = self._roots[request.namespace] = Run(-1, None, b"", 0)
        run, found = self._grow(root, path[: findable * UNIT_BYTES])
        bottom, _ = self._grow(run, path[findable * UNIT_BYTES :])
        self._bottoms.append(bottom)
        self._findable.append(findable)
        return found

    def freeze(self) -> Visits:
        """The trace as uses of runs; the tree may be dropped afterwards."""
        runs, first = array("q"), array("q", [0])
        for bottom in self._bottoms:
            runs.extend(reversed([run.number for run in _upwards(bottom)]))
            first.append(len(runs))
        tree = self._runs
        return Visits(
            runs,
            first,
            array("q", (bottom.end for bottom in self._bottoms)),
            self._findable,
            array("q", (len(run.units) // UNIT_BYTES for run in tree)),
            array("q", (run.end for run in tree)),
            array("q", (run.parent.number if run.parent else -1 for run in tree)),
        )

    def _grow(self, run: Run, units: bytes) -> tuple[Run, int]:
        """Follow `units` down from the end of `run`, adding what is missing.

        Returns the run that ends where they end, cut there if need be, and how many were there.
        """
        values = memoryview(units).cast("i")
        offset = 0
        while offset < len(values):
            child = run.children.get(values[offset])
            if child is None:
                return self._append(run, units[offset * UNIT_BYTES :]), offset
            length = len(child.units) // UNIT_BYTES
            if not units.startswith(child.units, offset * UNIT_BYTES):
                length = common_units(child.units, units[offset * UNIT_BYTES :])
                child = self._cut(child, length)
            run, offset = child, offset + length
        return run, offset

    def _append(self, parent: Run, units: bytes) -> Run:
        run = Run(len(self._runs), parent, units, parent.end + len(units) // UNIT_BYTES)
        self._runs.append(run)
        parent.children[memoryview(units).cast("i")[0]] = run
        return run

    def _cut(self, run: Run, length: int) -> Run:
        """Cut a run; returns the upper part. The lower stays the object that ends there."""
        assert run.parent is not None, "a root holds nothing to cut"
        upper = self._append(run.parent, run.units[: length * UNIT_BYTES])
        run.units, run.parent = run.units[length * UNIT_BYTES :], upper
        upper.children[memoryview(run.units).cast("i")[0]] = run
        return upper


def _upwards(run: Run) -> Iterator[Run]:
    """A run and those above it, without the root."""
    while run.parent is not None:
        yield run
        run = run.parent
