"""`ReturnRates`: how likely something that has been idle so long comes back now, by class.

Owns two histograms per class over the idle time: returns, and exposure, the seconds that was
spent idle in a bin whether or not a return followed. Their ratio is the return rate. Knows
neither conversations nor leaves nor a clock: a class is a row, and times are given.

What is under way counts too, else the rate of those that never return would look high until
they are given up: a span is begun when something becomes idle, each rebuild counts the part
of it that has passed, and its end counts the rest.

Habits change by the hour, so every count fades with a half-life.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Where a bin ends, in seconds: [0, 2), [2, 2.8), ..., and all beyond 26 hours.
EDGES = tuple(2.0 * 2 ** (step / 2) for step in range(32))
NUM_BINS = len(EDGES) + 1
_STARTS = np.array((0.0, *EDGES))
_WIDTHS = np.diff(_STARTS)

# The rate before anything is known falls like one over the idle time: of those that are idle
# for a while, half have come back when they have been idle for four times as long.
_PRIOR_RATE = 0.5 / (_STARTS + 60.0)
_PRIOR_RETURNS = 0.5  # what the prior weighs in each bin; 2 costs a point of the gap to MIN

_PENDING = 4096  # ended spans that are counted together: one numpy call for all
_NEVER = float("inf")


class ReturnRates:
    """Return rates of classes, learned online.

    scales: for each class the share of the pooled rate that it has before anything is known of
    it; the classes of scale 1 make up the pool. half_life: seconds until a count is worth half.
    `scores[index][idle_bin(idle)]` is the logarithm of the rate per second, `pooled` the same of
    the pool; both never grow with the idle time, and change only in `rebuild`.
    """

    def __init__(self, scales: Sequence[float], half_life: float = 3600.0) -> None:
        if half_life <= 0:
            raise ValueError(f"half_life is {half_life} s; it must be positive")
        self._scales = np.array(scales)[:, None]
        self._half_life = half_life
        self._returns = np.zeros((len(scales), NUM_BINS))
        self._exposure = np.zeros((len(scales), NUM_BINS))
        self._rebuilt_at: float | None = None
        # Spans under way by slot: class, when it became idle, until when it has been counted.
        self._class, self._since, self._counted = array("q"), array("d"), array("d")
        self._unused: list[int] = []
        self._ended: list[tuple[int, float, float]] = []  # class, idle from, idle to
        self.pooled: list[float] = []
        self.scores: list[list[float]] = []
        self._tabulate()

    def returned(self, index: int, idle: float) -> None:
        """One of class `index` came back after `idle` seconds."""
        self._returns[index, idle_bin(idle)] += 1

    def begin(self, index: int, since: float, now: float) -> int:
        """One that has been idle since `since` is of class `index` from now on; returns a span."""
        if self._unused:
            span = self._unused.pop()
            self._class[span], self._since[span], self._counted[span] = index, since, now
            return span
        self._class.append(index)
        self._since.append(since)
        self._counted.append(now)
        return len(self._class) - 1

    def end(self, span: int, now: float) -> None:
        """The span is over: it came back, or is of another class, or is given up."""
        since, counted = self._since[span], self._counted[span]
        self._ended.append((self._class[span], counted - since, max(counted, now) - since))
        self._counted[span] = _NEVER
        self._unused.append(span)
        if len(self._ended) >= _PENDING:
            self._count_ended()

    def rebuild(self, now: float) -> None:
        """Count all that has passed, let the old fade, and work out the rates."""
        self._count_ended()
        counted = np.frombuffer(self._counted) if self._counted else np.zeros(0)
        under_way = np.flatnonzero(counted < now)
        if len(under_way):
            since = np.frombuffer(self._since)[under_way]
            classes = np.frombuffer(self._class, np.int64)[under_way]
            self._expose(classes, counted[under_way] - since, now - since)
            counted[under_way] = now
        if self._rebuilt_at is not None and now > self._rebuilt_at:
            kept = 0.5 ** ((now - self._rebuilt_at) / self._half_life)
            self._returns *= kept
            self._exposure *= kept
        self._rebuilt_at = now
        self._tabulate()

    def _count_ended(self) -> None:
        if self._ended:
            classes, begins, ends = zip(*self._ended, strict=True)
            self._expose(np.array(classes), np.array(begins), np.array(ends))
            self._ended.clear()

    def _expose(
        self,
        classes: NDArray[np.int64],
        begins: NDArray[np.float64],
        ends: NDArray[np.float64],
    ) -> None:
        """Add the seconds between two idle times to the bins they fall in, for many at once."""
        self._exposure += self._until(classes, ends) - self._until(classes, begins)

    def _until(self, classes: NDArray[np.int64], idle: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds in each bin, by class, when all are idle from 0 to `idle`."""
        bins = np.searchsorted(_STARTS, idle, side="right") - 1
        cells, shape = classes * NUM_BINS + bins, self._exposure.shape
        size = self._exposure.size
        within = np.bincount(cells, idle - _STARTS[bins], size).reshape(shape)
        beyond = np.bincount(cells, minlength=size).reshape(shape)[:, :0:-1].cumsum(1)[:, ::-1]
        seconds: NDArray[np.float64] = within + np.pad(beyond * _WIDTHS, ((0, 0), (0, 1)))
        return seconds

    def _tabulate(self) -> None:
        returns, exposure = _smooth(self._returns), _smooth(self._exposure)
        live = self._scales[:, 0] == 1
        seconds = exposure[live].sum(0) + _PRIOR_RETURNS / _PRIOR_RATE
        pooled = _non_increasing(returns[live].sum(0) + _PRIOR_RETURNS, seconds)
        returns += _PRIOR_RETURNS * self._scales
        exposure += _PRIOR_RETURNS / pooled
        self.pooled = _logarithms(pooled)
        self.scores = [
            _logarithms(_non_increasing(*row)) for row in zip(returns, exposure, strict=True)
        ]


def idle_bin(idle: float) -> int:
    """The bin of an idle time in seconds; a negative one is taken for 0."""
    return bisect_right(EDGES, idle)


def _smooth(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share counts with the neighbouring bins: a quarter to each side."""
    padded = np.pad(counts, ((0, 0), (1, 1)), mode="edge")
    return 0.5 * counts + 0.25 * (padded[:, :-2] + padded[:, 2:])


def _logarithms(rates: NDArray[np.float64]) -> list[float]:
    """Rounded, so that rates tie that differ by the error of their arithmetic."""
    return [round(math.log(rate), 6) for rate in rates.tolist()]


def _non_increasing(
    returns: NDArray[np.float64], exposure: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The most likely rates by bin that never grow: neighbours that would are pooled."""
    blocks: list[tuple[float, float, int]] = []  # returns, exposure, bins
    for count, seconds in zip(returns.tolist(), exposure.tolist(), strict=True):
        block = count, seconds, 1
        while blocks and block[0] * blocks[-1][1] > blocks[-1][0] * block[1]:
            earlier = blocks.pop()
            block = earlier[0] + block[0], earlier[1] + block[1], earlier[2] + block[2]
        blocks.append(block)
    return np.array([count / seconds for count, seconds, width in blocks for _ in range(width)])
