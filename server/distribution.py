"""`Distribution`: how often values fell into which bucket, as a Prometheus histogram shows it.

Of its own, not prometheus_client's: a step that brought several tokens counts as that many gaps
at once, nothing takes a lock (one thread writes and reads it), and no series of creation times
doubles what is scraped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

# Seconds. From one cached word on a fast machine to a long prompt on a slow one.
SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0),
)
TOKENS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0)


class Distribution:
    """Counts of values up to each bound, the sum of all, and how many they are."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """bounds: the largest value of each bucket, ascending; what is above has a bucket too."""
        assert list(bounds) == sorted(set(bounds)), f"{bounds} does not ascend"
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Count a value, `times` times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self._counts)

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bound and number of values up to it, the last bound "+Inf"."""
        total, buckets = 0, []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets
