"""`Percentiles`: what a list of times comes to."""

from __future__ import annotations

import pytest

from radixchat.bench.percentiles import Percentiles


def test_percentiles_of_a_hundred_and_one() -> None:
    """Each is the value that so many hundredths are below."""
    found = Percentiles.of([float(value) for value in reversed(range(101))])
    assert found == Percentiles(101, 50, 0, 50, 90, 95, 99, 100)
    assert found.quantiles == (50, 90, 95, 99)


def test_between_two_values_it_is_interpolated() -> None:
    """And one value is all of them."""
    assert Percentiles.of([1, 2]).p50 == 1.5
    assert Percentiles.of([7]) == Percentiles(1, 7, 7, 7, 7, 7, 7, 7)


def test_of_nothing_there_are_none() -> None:
    """No number is made up."""
    with pytest.raises(AssertionError, match="nothing to summarise"):
        Percentiles.of([])
