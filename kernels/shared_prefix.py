"""Which requests of a step read the same pages, so that these are read once: from page tables.

numpy only; knows no tree. What shares pages in the tree has equal numbers at the head of its table.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from radixchat.kernels.attention_work import SharedPrefix

# A prefix costs a merge of each row's parts, so it must save some reading. Not measured yet.
LEAST_PAGES = 4

Int32s = NDArray[np.int32]


def shared_prefixes(
    tables: Int32s, starts: Int32s, lengths: Int32s, page_size: int, least: int = LEAST_PAGES
) -> list[SharedPrefix]:
    """Groups of requests, none in two, whose first pages are equal, `least` or more.

    tables [requests, pages]; starts, lengths: as in Ragged. Of a prefix that many share and a
    longer one that some of them share, as a system prompt and the forks of one chat, whichever
    saves more reading.
    """
    # Whole pages before a request's first new row.
    limits = (lengths - np.diff(starts)) // page_size
    members = (limits >= least).nonzero()[0]
    groups = []
    for group in _by_page(tables, members, 0):
        common = _common(tables, limits, group)
        inner = []
        for part in _by_page(tables, group[limits[group] > common], common):
            inner.append((part, _common(tables, limits, part)))
        outer = [(group, common)]
        groups += max(outer, inner, key=_saved)
    return [
        SharedPrefix(tuple(group.tolist()), common * page_size)
        for group, common in groups
        if common >= least
    ]


def _by_page(tables: Int32s, members: NDArray[np.int64], index: int) -> list[NDArray[np.int64]]:
    """Those of the members that have the same page at this index, two or more together."""
    if len(members) < 2:
        return []
    pages = tables[members, index]
    return [
        members[pages == page]
        for page, n in zip(*np.unique(pages, return_counts=True), strict=True)
        if n > 1
    ]


def _common(tables: Int32s, limits: NDArray[np.int32], group: NDArray[np.int64]) -> int:
    """How many pages at the head of the tables are the same for the group."""
    most = int(limits[group].min())
    equal = (tables[group, :most] == tables[group[0], :most]).all(0)
    return most if equal.all() else int(equal.argmin())


def _saved(groups: Iterable[tuple[NDArray[np.int64], int]]) -> int:
    """Pages that need not be read."""
    return sum((len(group) - 1) * common for group, common in groups)
