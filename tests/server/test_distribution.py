"""Tests of server/distribution.py."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixchat.server.distribution import Distribution


def test_buckets_are_cumulative() -> None:
    """Each bucket counts what is not above its bound, the last one everything."""
    seen = Distribution((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        seen.add(value)
    assert seen.buckets() == [("1.0", 2.0), ("2.0", 3.0), ("+Inf", 4.0)]
    assert seen.count == 4
    assert seen.sum == 12.0


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(1, 5))))
def test_a_value_counted_several_times_is_several_values(values: list[tuple[float, int]]) -> None:
    """`times` is the same as so many calls."""
    at_once, one_by_one = Distribution((1.0, 3.0)), Distribution((1.0, 3.0))
    for value, times in values:
        at_once.add(value, times)
        for _ in range(times):
            one_by_one.add(value)
    assert at_once.buckets() == one_by_one.buckets()
    assert abs(at_once.sum - one_by_one.sum) < 1e-6
