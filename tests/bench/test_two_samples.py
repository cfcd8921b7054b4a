"""The Kolmogorov-Smirnov test against counts by hand, and against shuffling."""

from __future__ import annotations

import random

import pytest

from radixchat.bench.two_samples import compare


def test_the_distance_of_a_few_numbers() -> None:
    """Counted by hand: at 2, half of the left ones and none of the right ones lie below."""
    assert compare([1, 2, 3, 4], [3, 4, 5, 6]).distance == pytest.approx(0.5)
    assert compare([1, 1, 2], [1, 2, 2]).distance == pytest.approx(1 / 3)


def test_equal_and_disjoint_samples() -> None:
    """The ends of the scale."""
    assert compare([1, 2, 3], [1, 2, 3]).p == pytest.approx(1.0, abs=1e-6)
    apart = compare(range(250), range(1000, 1250))
    assert apart.distance == 1.0
    assert apart.p < 1e-12


def test_p_is_what_shuffling_finds() -> None:
    """How often two halves of shuffled numbers are as far apart: the meaning of p."""
    rng = random.Random(5)
    numbers = [rng.gauss(0, 1) for _ in range(120)]
    left, right = numbers[:60], [x + 0.3 for x in numbers[60:]]
    test = compare(left, right)
    pool, as_far = left + right, 0
    for _ in range(1000):
        rng.shuffle(pool)
        as_far += compare(pool[:60], pool[60:]).distance >= test.distance - 1e-9
    assert test.p == pytest.approx(as_far / 1000, abs=0.05)
