"""What the hit rates of a trace are measured against: the oracles and how to ask them.

    infinite        an unlimited cache: no cache of any size finds more
    OfflineOptimum  a cache of this size that knows the future: none of this size finds more
    reference_lru   a cache of this size, least recently used first: ours with `lru` equals it;
                    `OfflineOptimum.lru` is the same for long traces

All count units of prompts found by a serial replay, one request at a time, never a prompt's last
unit; in each namespace for itself. Units become tokens where the rates are computed. None of them
imports `radix/`. The infinite bound and the optimum keep each distinct unit of the trace (4 bytes)
while its paths are gathered, the reference keeps what its capacity holds.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from radixchat.bench.optimum import OfflineOptimum
from radixchat.bench.oracle_result import OracleResult
from radixchat.bench.path_tree import PathTree
from radixchat.bench.reference_lru import ReferenceLru
from radixchat.bench.trace_item import TraceItem, TraceRequest

__all__ = ["OfflineOptimum", "OracleResult", "infinite", "reference_lru"]


def infinite(trace: Iterable[TraceItem]) -> OracleResult:
    """What an unlimited cache would have found; `OfflineOptimum.infinite` is the same."""
    tree = PathTree()
    found = [tree.add(item) for item in trace if isinstance(item, TraceRequest)]
    return OracleResult(np.array(found, np.int64), 0)


def reference_lru(trace: Iterable[TraceItem], capacity_units: int) -> OracleResult:
    """What the naive LRU cache of `capacity_units` units finds and evicts."""
    cache = ReferenceLru(capacity_units)
    found = [cache.serve(item) for item in trace if isinstance(item, TraceRequest)]
    return OracleResult(np.array(found, np.int64), cache.num_evicted)
