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


def test_noise_is_what_it_has_always_been() -> None:
    """A seed repeats an answer after an update too. SplitMix64's finaliser in Python integers."""

    def mix(z: int) -> int:
        z = (z + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    for seed, position in ((0, 0), (1, 5), (2**63 - 1, 100_000)):
        bits = mix((mix(seed) + position * 0x9E3779B97F4A7C15) % 2**64)
        assert uniform_noise([seed], [position])[0] == (bits >> 11) / 2**53
