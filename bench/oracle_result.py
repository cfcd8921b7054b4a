"""`OracleResult`: what an oracle says of a trace. Knows no trace and no cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class OracleResult:
    """One oracle over one trace.

    cached_units: int64 [requests], of each request in order how many units of its prompt were
    found; 0 where the request is larger than the capacity. evicted_units: over the whole trace.
    """

    cached_units: NDArray[np.int64]
    evicted_units: int
