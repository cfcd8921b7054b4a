"""The memory that an object leads to."""

from __future__ import annotations

import sys
from array import array

from radixchat.bench.index_memory import reachable_bytes


class _Thing:
    __slots__ = ("other",)

    def __init__(self, other: object) -> None:
        self.other = other


def test_it_is_the_sum_of_all_that_is_reached() -> None:
    """Through slots, lists and dictionaries; a buffer with its contents."""
    numbers = array("i", range(1000))
    inner = _Thing(numbers)
    outer = _Thing([inner])
    expected = sum(map(sys.getsizeof, (outer, [inner], inner, numbers)))
    assert reachable_bytes(outer) == expected > 4000


def test_each_object_counts_once() -> None:
    """Shared by two, or part of a cycle."""
    text = "x" * 1000
    both = [text, text]
    assert reachable_bytes(both) == sys.getsizeof(both) + sys.getsizeof(text)
    one, other = _Thing(None), _Thing(None)
    one.other, other.other = other, one
    assert reachable_bytes(one) == 2 * sys.getsizeof(one)


def test_code_does_not_count() -> None:
    """A class or a function that is referred to leads to the whole program, and is left out."""
    assert reachable_bytes(_Thing(_Thing)) == sys.getsizeof(_Thing(None))
    assert reachable_bytes(_Thing(len)) == sys.getsizeof(_Thing(None))


def test_a_class_can_be_left_out() -> None:
    """Neither it nor what only it leads to counts."""
    text = "x" * 1000
    assert reachable_bytes([_Thing(text)], (_Thing,)) == sys.getsizeof([None])
    assert reachable_bytes([_Thing(text), text], (_Thing,)) > 1000
