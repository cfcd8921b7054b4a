"""What a request leaves behind, and what two sequences have in common."""

from __future__ import annotations

import numpy as np
import pytest

from radixchat.bench.arm import common_units, computed_path
from radixchat.tests.bench.traffic import ask


@pytest.mark.parametrize(
    ("output", "path"),
    [([], [1, 2]), ([3], [1, 2]), ([3, 4], [1, 2, 3]), ([3, 4, 5], [1, 2, 3, 4])],
)
def test_the_last_unit_of_the_reply_is_not_computed(output: list[int], path: list[int]) -> None:
    """Its K/V never exists; that of all others does."""
    assert computed_path(ask([1, 2], output)).tolist() == path


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ([], [1], 0),
        ([1], [1], 1),
        ([1, 2, 3], [1, 2], 2),
        ([1, 2, 3], [1, 9, 3], 1),
        ([256], [512], 0),
    ],
)
def test_common_units(left: list[int], right: list[int], common: int) -> None:
    """Counted in units, not in bytes, and in either order."""
    a, b = (np.array(values, np.int32).tobytes() for values in (left, right))
    assert common_units(a, b) == common_units(b, a) == common
