"""Which request has which row of a decode step, and the rows' page tables as they lie in memory.

A request keeps its row from step to step, so of its table only what is new is written: 64 tables
of 512 pages take 1 ms to write and 0.1 to compare. Knows no device, no token and no K or V.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from radixchat.engine.request import Request


class DecodeRows:
    """Rows 0..n-1 for the n requests of a step."""

    def __init__(self, max_rows: int, max_pages: int) -> None:
        """max_pages: of one request."""
        self.tables = np.zeros((max_rows, max_pages), dtype=np.int32)
        self._pages: list[list[int]] = [[] for _ in range(max_rows)]  # what tables hold, by row
        self._rows: dict[Request, int] = {}

    def assign(self, requests: Sequence[Request]) -> list[int]:
        """The row of each: 0..n-1 in some order; whoever had one of these before has it again."""
        count = len(requests)
        assert count <= len(self._pages), (count, len(self._pages))
        wanted = set(requests)
        assert len(wanted) == count, "a request has one row"
        kept = {r: row for r, row in self._rows.items() if r in wanted and row < count}
        free = iter(sorted(set(range(count)) - set(kept.values())))
        self._rows = {r: kept[r] if r in kept else next(free) for r in requests}
        return [self._rows[r] for r in requests]

    def write(self, row: int, pages: Sequence[int]) -> None:
        """Make `pages` the beginning of the row's table; what is behind them is not read."""
        held = self._pages[row]
        # Usually a table grows at its end, or has another last page than was assumed.
        both = min(len(held), len(pages))
        start = next(n for n in (both, max(both - 1, 0), 0) if held[:n] == pages[:n])
        if start < len(pages):
            self.tables[row, start : len(pages)] = pages[start:]
        held[start:] = pages[start:]
