"""The time of a trace goes forward, or is not there at all."""

from __future__ import annotations

import pytest

from radixchat.bench.trace_clock import TraceClock
from radixchat.bench.trace_item import TraceError
from radixchat.tests.bench.traces import trace_lines


def elapsed(*times: object) -> list[float | None]:
    clock = TraceClock()
    lines = trace_lines(*({} if time is None else {"time": time} for time in times))
    return [clock.elapsed(line, line.seconds()) for line in lines]


def test_time_begins_with_the_first_line() -> None:
    """Equal times are in order; lines without any have none."""
    assert elapsed(1.7e9, 1.7e9, 1.7e9 + 0.5) == [0.0, 0.0, 0.5]
    assert elapsed(0, 2) == [0.0, 2.0]
    assert elapsed(None, None) == [None, None]


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ((5, 4.75), "the time goes back by 0.250 s; sort the lines by time"),
        ((5, None), "the first line has a time, this has none; give all a time, or none"),
        ((None, 5), "the first line has no time, this has one"),
        ((5, -1), "time is -1; seconds, 0 to 253402300800, or an ISO 8601 date"),
        ((5, 1_700_000_000_000), "time is 1700000000000; seconds, 0 to 253402300800"),
        ((5, 1e308), r"time is 1e\+308; seconds"),
        ((5, True), "time is true"),
        ((5, [1]), "time is a list of 1"),
        ((5, 10**400), "time is 1000"),
        ((5, float("inf")), "time is Infinity"),  # 1e999 in JSON
        ((5, "soon"), 'time is "soon"'),
        ((5, "0001-01-01T00:00+10:00"), "time is "),
    ],
)
def test_a_time_that_cannot_be_is_refused(times: tuple[object, ...], reason: str) -> None:
    """With the line."""
    with pytest.raises(TraceError, match=rf"^t.jsonl:2: {reason}"):
        elapsed(*times)
