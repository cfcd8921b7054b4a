"""The two-sample Kolmogorov-Smirnov test: whether two lists of numbers are of one distribution.

After Smirnov (1948), with Stephens' correction for small samples (1970) as in Numerical Recipes,
section 14.3. scipy has it too, and is 100 MB for one series.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class TwoSamples:
    """distance: the largest between the two empirical distributions; p: how likely one at least so
    large is where both are of one distribution.
    """

    distance: float
    p: float


def compare(left: Sequence[float], right: Sequence[float]) -> TwoSamples:
    """The test of two samples of at least one value each."""
    a, b = np.sort(np.asarray(left, float)), np.sort(np.asarray(right, float))
    points = np.concatenate([a, b])
    below_a = np.searchsorted(a, points, side="right") / len(a)
    below_b = np.searchsorted(b, points, side="right") / len(b)
    distance = float(np.abs(below_a - below_b).max())
    root = math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    return TwoSamples(distance, _tail((root + 0.12 + 0.11 / root) * distance))


def _tail(x: float) -> float:
    """2 * sum over k >= 1 of (-1)^(k-1) exp(-2 k^2 x^2): the Kolmogorov distribution's tail."""
    if x < 0.2:  # the series is 1 to sixteen places there, and converges slowly
        return 1.0
    terms = (2 * (-1) ** (k - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 101))
    return min(1.0, max(0.0, math.fsum(terms)))
