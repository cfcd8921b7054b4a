"""Buckets of decode rows, and that each graph is captured at start and then replayed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from radixchat.engine.device_queue import CpuQueue
from radixchat.engine.graphs import DecodeGraphs, bucket_sizes


class RecordingQueue(CpuQueue):
    """The CPU, which keeps count of its captures."""

    def __init__(self) -> None:
        self.captures = 0

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """The work itself."""
        self.captures += 1
        return super().capture(work)


@pytest.mark.parametrize(
    ("max_rows", "smallest", "expected"),
    [
        (1, 1, (1,)),
        (2, 1, (1, 2)),
        (16, 1, (1, 2, 4, 8, 16)),
        (48, 1, (1, 2, 4, 8, 16, 32, 48)),
        (6, 4, (4, 8)),
        (1, 4, (4,)),
        (50, 8, (8, 16, 32, 56)),
    ],
)
def test_sizes_double_up_to_the_most(
    max_rows: int, smallest: int, expected: tuple[int, ...]
) -> None:
    """The last size holds max_rows and is a multiple of the smallest."""
    assert bucket_sizes(max_rows, smallest) == expected


def test_a_step_takes_the_smallest_size_that_holds_it() -> None:
    """Of n rows no size that would do is smaller."""
    graphs = DecodeGraphs(lambda size: None, bucket_sizes(48), CpuQueue())
    for rows in range(1, 49):
        size = graphs.size_for(rows)
        assert size == min(s for s in graphs.sizes if s >= rows)
    with pytest.raises(AssertionError):
        graphs.size_for(49)


def test_each_size_has_the_graph_that_was_captured_for_it() -> None:
    """Replays run the work of their own size, and capture nothing more."""
    queue, done = RecordingQueue(), list[int]()
    graphs = DecodeGraphs(done.append, (1, 2, 4), queue)
    for size in (4, 2, 1):
        graphs.capture(size)
    assert (queue.captures, done) == (3, [])
    for size in (4, 1, 2, 4):
        graphs.replay(size)
    assert (queue.captures, done) == (3, [4, 1, 2, 4])


def test_a_graph_is_never_captured_with_a_step_s_own_rows() -> None:
    """Capturing runs the work more than once: what was not made at start is not made later."""
    graphs = DecodeGraphs(lambda size: None, (1, 2), CpuQueue())
    graphs.capture(2)
    with pytest.raises(KeyError):
        graphs.replay(1)
