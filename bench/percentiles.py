"""`Percentiles`: what a list of times comes to. Knows no unit and no measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of n values, in their unit; between two values it is interpolated."""

    n: int
    mean: float
    min: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        """The percentiles of at least one value, rounded to three places."""
        assert values, "there is nothing to summarise"
        array = np.asarray(values, np.float64)
        p50, p90, p95, p99 = np.percentile(array, (50, 90, 95, 99)).round(3).tolist()
        mean, low, high = (round(float(x), 3) for x in (array.mean(), array.min(), array.max()))
        return cls(len(values), mean, low, p50, p90, p95, p99, high)

    @property
    def quantiles(self) -> tuple[float, float, float, float]:
        """The four that the tables show: p50, p90, p95, p99."""
        return self.p50, self.p90, self.p95, self.p99
