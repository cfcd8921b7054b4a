"""Times for people."""

from __future__ import annotations

import pytest

from radixchat.chat_cli.duration import duration


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0.0, "1 ms"),
        (0.4, "1 ms"),
        (41.6, "42 ms"),
        (999.4, "999 ms"),
        (999.6, "1.0 s"),
        (2100.0, "2.1 s"),
        (9960.0, "10 s"),
        (99_400.0, "99 s"),
        (99_600.0, "2 min"),
        (3_600_000.0, "60 min"),
    ],
)
def test_a_unit_that_suits(milliseconds: float, shown: str) -> None:
    """Two digits or so, and never nothing."""
    assert duration(milliseconds) == shown
