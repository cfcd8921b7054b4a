"""The noise of sampling."""

from __future__ import annotations

import numpy as np

from radixchat.engine.noise import uniform_noise


def test_noise_is_uniform_and_differs_by_seed_and_position() -> None:
    """Mean and variance of a uniform; neighbouring seeds and positions are uncorrelated."""
    noise = uniform_noise([5] * 50_000, list(range(50_000)))
    assert abs(noise.mean() - 0.5) < 0.006
    assert abs(noise.var() - 1 / 12) < 0.003
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 0.02
    by_seed = uniform_noise(list(range(50_000)), [3] * 50_000)
    assert abs(np.corrcoef(by_seed[:-1], by_seed[1:])[0, 1]) < 0.02
    assert len(set(by_seed)) == 50_000
    assert noise.min() >= 0
    assert noise.max() < 1


def test_noise_does_not_depend_on_what_else_is_asked_for() -> None:
    """A pure function of each pair."""
    seeds, positions = [3, 2**63 - 1, 0], [9, 0, 70_000]
    together = uniform_noise(seeds, positions)
    alone = [uniform_noise([s], [p])[0] for s, p in zip(seeds, positions, strict=True)]
    assert together.tolist() == alone
