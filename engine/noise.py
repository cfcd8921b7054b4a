"""The noise of sampling: a counter-based function of (seed, position), never of step or batch.

So a request gives the same tokens alone, in a batch, preempted or resumed. Knows numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def uniform_noise(seeds: Sequence[int], positions: Sequence[int]) -> np.ndarray:
    """Uniform in [0, 1), float64, a pure function of each (seed, position).

    The finaliser of SplitMix64 (Steele, Lea, Flood 2014) applied to the seed's hash plus the
    position times the golden-ratio increment.
    """
    with np.errstate(over="ignore"):
        state = _mix(np.asarray(seeds, dtype=np.uint64))
        step = np.asarray(positions, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        bits = _mix(state + step)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(z: np.ndarray) -> np.ndarray:
    z = (z + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed
