"""Tests of the return rates, against sums that are worked out bin by bin."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.radix.return_rate import (
    _PENDING,
    _PRIOR_RATE,
    EDGES,
    NUM_BINS,
    ReturnRates,
    idle_bin,
)

_BINS = list(pairwise((0.0, *EDGES, math.inf)))
_PRIOR = [float(rate) for rate in _PRIOR_RATE]


class _NaiveRates:
    """The same by definition: every span is kept, and a rate is an average of averages."""

    def __init__(self, scales: list[float], half_life: float) -> None:
        self.scales, self.half_life = scales, half_life
        self.returns = [[0.0] * NUM_BINS for _ in scales]
        self.exposure = [[0.0] * NUM_BINS for _ in scales]
        self.rebuilt_at: float | None = None

    def expose(self, index: int, begin: float, end: float) -> None:
        for number, (low, high) in enumerate(_BINS):
            self.exposure[index][number] += max(0.0, min(end, high) - max(begin, low))

    def returned(self, index: int, idle: float) -> None:
        (number,) = (number for number, (low, high) in enumerate(_BINS) if low <= idle < high)
        self.returns[index][number] += 1

    def fade(self, now: float) -> None:
        if self.rebuilt_at is not None:
            kept = 2 ** (-(now - self.rebuilt_at) / self.half_life)
            for rows in (self.returns, self.exposure):
                for row in rows:
                    row[:] = [value * kept for value in row]
        self.rebuilt_at = now

    def scores(self) -> tuple[list[list[float]], list[float]]:
        returns = [_smooth(row) for row in self.returns]
        exposure = [_smooth(row) for row in self.exposure]
        live = [index for index, scale in enumerate(self.scales) if scale == 1]
        pooled = _isotonic(
            [0.5 + sum(returns[index][k] for index in live) for k in range(NUM_BINS)],
            [0.5 / _PRIOR[k] + sum(exposure[i][k] for i in live) for k in range(NUM_BINS)],
        )
        rows = [
            _isotonic(
                [0.5 * scale + value for value in returns[index]],
                [0.5 / rate + value for value, rate in zip(exposure[index], pooled, strict=True)],
            )
            for index, scale in enumerate(self.scales)
        ]
        return [[math.log(rate) for rate in row] for row in rows], [math.log(r) for r in pooled]


def _smooth(row: list[float]) -> list[float]:
    around = [row[0], *row, row[-1]]
    return [(around[k] + 2 * around[k + 1] + around[k + 2]) / 4 for k in range(len(row))]


def _isotonic(returns: list[float], exposure: list[float]) -> list[float]:
    """The min-max formula of the most likely rates that never grow."""
    size = len(returns)
    mean = [
        [sum(returns[i : j + 1]) / sum(exposure[i : j + 1]) if i <= j else 0.0 for j in range(size)]
        for i in range(size)
    ]
    return [min(max(mean[i][k:]) for i in range(k + 1)) for k in range(size)]


def _rates(scales: tuple[float, ...] = (1.0, 1.0, 0.001)) -> ReturnRates:
    return ReturnRates(scales)


def test_bins_are_found_by_their_edges() -> None:
    """A bin holds its lower edge, each is √2 of the one before, and time before 0 counts as 0."""
    assert idle_bin(-5.0) == idle_bin(0.0) == idle_bin(1.99) == 0
    assert idle_bin(2.0) == 1
    assert idle_bin(4.0) == 3
    assert idle_bin(1e9) == NUM_BINS - 1
    assert all(math.isclose(high / low, math.sqrt(2)) for low, high in pairwise(EDGES))
    assert EDGES[-1] > 24 * 3600


def test_nothing_known_is_the_prior() -> None:
    """Classes of scale 1 have equal scores, which fall with the idle time; others are scaled."""
    rates = _rates()
    rates.rebuild(0.0)
    rates.rebuild(500.0)
    assert rates.scores[0] == rates.scores[1] == rates.pooled
    assert rates.pooled == pytest.approx([math.log(rate) for rate in _PRIOR], abs=1e-5)
    assert all(later < earlier for earlier, later in pairwise(rates.pooled))
    assert rates.scores[2] == pytest.approx([each + math.log(0.001) for each in rates.pooled])


def test_one_return_says_little() -> None:
    """One return changes no rate of any class by more than a factor of two."""
    rates = _rates()
    before = rates.scores[0]
    rates.returned(0, 30.0)
    rates.rebuild(0.0)
    for row in (*rates.scores[:2], rates.pooled):
        assert all(0 <= now - then < math.log(2) for now, then in zip(row, before, strict=True))
    assert rates.scores[0] != before


def test_who_comes_back_is_told_apart() -> None:
    """A class that comes back within a minute outranks one that never does."""
    rates = _rates()
    for number in range(100):
        start = number * 100.0
        rates.end(rates.begin(0, start, start), start + 30)
        rates.returned(0, 30.0)
        rates.end(rates.begin(1, start, start), start + 10_000)
    rates.rebuild(20_000.0)
    assert all(back >= gone for back, gone in zip(*rates.scores[:2], strict=True))
    minute = idle_bin(28.0)
    assert rates.scores[0][minute] > rates.pooled[minute] > rates.scores[1][minute]


def test_a_class_that_is_not_pooled_can_be_learned() -> None:
    """Closed ones that come back all the same outrank, in the end, open ones that do not."""
    rates = _rates()
    for _ in range(50):
        rates.end(rates.begin(2, 0.0, 0.0), 100.0)
        rates.returned(2, 100.0)
        rates.end(rates.begin(0, 0.0, 0.0), 50_000.0)
    pooled = rates.pooled
    rates.rebuild(0.0)
    assert rates.scores[2][idle_bin(60.0)] > rates.scores[0][idle_bin(60.0)]
    assert all(now <= then for now, then in zip(rates.pooled, pooled, strict=True))


def test_those_that_have_not_come_back_count() -> None:
    """Idle time under way lowers the rate at the next rebuild, and no second is counted twice."""
    rates, other = _rates(), _rates()
    span = rates.begin(0, 0.0, 0.0)
    before = rates.scores[0]
    rates.rebuild(1000.0)
    assert rates.scores[0][idle_bin(900.0)] < before[idle_bin(900.0)]
    rates.rebuild(1000.0)
    rates.end(span, 1000.0)
    rates.rebuild(1000.0)
    other.end(other.begin(0, 0.0, 0.0), 1000.0)
    other.rebuild(1000.0)
    assert rates.scores == other.scores


def test_habits_fade() -> None:
    """After twenty half-lives it is as if nothing had been seen."""
    rates = ReturnRates([1.0, 1.0], half_life=60.0)
    before = rates.scores[0]
    for _ in range(1000):
        rates.returned(0, 5.0)
    rates.rebuild(0.0)
    assert rates.scores[0][0] > before[0] + 1
    rates.rebuild(20 * 60.0)
    assert rates.scores[0] == pytest.approx(before, abs=1e-2)


def test_spans_are_used_again() -> None:
    """Memory is bound by the spans under way, and by a batch of those that have ended."""
    rates = _rates()
    for number in range(3 * _PENDING):
        rates.end(rates.begin(0, float(number), float(number)), number + 1.0)
        assert len(rates._ended) < _PENDING
    assert len(rates._class) == len(rates._since) == len(rates._counted) == 1


@pytest.mark.parametrize("half_life", [0.0, -1.0])
def test_a_half_life_is_positive(half_life: float) -> None:
    """Anything else is refused with the value."""
    with pytest.raises(ValueError, match=f"half_life is {half_life} s"):
        ReturnRates([1.0], half_life)


_SCALES = [1.0, 1.0, 1e-3]
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "end", "return", "rebuild"]),
        st.integers(0, 2),
        st.one_of(st.floats(0, 10), st.floats(0, 5000), st.just(0.0)),
        st.floats(0, 90_000),
    ),
    max_size=60,
)


@settings(deadline=None, max_examples=60)
@given(_STEPS)
def test_rates_are_those_of_the_definition(steps: list[tuple[str, int, float, float]]) -> None:
    """Any spans and returns: the scores of the naive sums, never growing with the idle time."""
    rates, naive, now = ReturnRates(_SCALES, 600.0), _NaiveRates(_SCALES, 600.0), 1e5
    open_spans: list[tuple[int, int, float, float]] = []  # span, class, since, counted
    for what, index, wait, value in [*steps, ("rebuild", 0, 1.0, 0.0)]:
        now += wait
        if what == "begin":
            since = now - value if index else now
            open_spans.append((rates.begin(index, since, now), index, since, now))
        elif what == "end" and open_spans:
            span, whose, since, counted = open_spans.pop(index % len(open_spans))
            rates.end(span, now)
            naive.expose(whose, counted - since, now - since)
        elif what == "return":
            rates.returned(index, value)
            naive.returned(index, value)
        elif what == "rebuild":
            for place, (span, whose, since, counted) in enumerate(open_spans):
                naive.expose(whose, counted - since, now - since)
                open_spans[place] = span, whose, since, now
            naive.fade(now)
            rates.rebuild(now)
            scores, pooled = naive.scores()
            for row, expected in zip([*rates.scores, rates.pooled], [*scores, pooled], strict=True):
                assert row == pytest.approx(expected, abs=2e-6)
                assert all(later <= earlier for earlier, later in pairwise(row))
