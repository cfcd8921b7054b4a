"""The runs of a trace: every use of a run uses all of it, and what is found is exact."""

from __future__ import annotations

import pytest

from radixchat.bench.path_tree import PathTree, Visits
from radixchat.tests.bench.chat_traffic import ChatTraffic, request


def spans(visits: Visits, index: int) -> list[tuple[int, int]]:
    """Begin and end of the runs that a request uses."""
    runs = visits.runs[visits.first[index] : visits.first[index + 1]]
    return [(visits.end[run] - visits.length[run], visits.end[run]) for run in runs]


def test_cuts_where_the_found_part_and_the_path_end() -> None:
    """The picture in the module's docstring."""
    tree = PathTree()
    assert tree.add(request([1, 2, 3, 4])) == 0
    assert tree.add(request([1, 2, 3, 5, 6], [7, 8])) == 3
    visits = tree.freeze()
    assert spans(visits, 0) == [(0, 3), (3, 4)]
    assert spans(visits, 1) == [(0, 3), (3, 4), (4, 6)]
    assert sorted(visits.length) == [1, 1, 2, 3]
    assert list(visits.size) == [4, 6]
    assert list(visits.findable) == [3, 4]


def test_a_path_inside_a_run_cuts_it() -> None:
    """Also when it adds nothing; a prompt of one unit finds nothing."""
    tree = PathTree()
    tree.add(request([1, 2, 3, 4, 5, 6]))
    assert tree.add(request([1, 2, 3])) == 2
    assert tree.add(request([1])) == 0
    visits = tree.freeze()
    assert spans(visits, 0) == [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6)]
    assert spans(visits, 1) == [(0, 1), (1, 2), (2, 3)]
    assert spans(visits, 2) == [(0, 1)]


@pytest.mark.parametrize("seed", range(20))
def test_equals_the_set_of_prefixes(seed: int) -> None:
    """Found units, sizes and distinct units are those of a set of all prefixes."""
    tree, seen = PathTree(), set()
    items = ChatTraffic(seed).requests(60)
    for item in items:
        path = tuple(item.prompt.tolist() + item.output.tolist()[:-1])
        prefixes = [(item.namespace, path[: length + 1]) for length in range(len(path))]
        found = 0
        while found < len(item.prompt) - 1 and prefixes[found] in seen:
            found += 1
        assert tree.add(item) == found
        seen.update(prefixes)
    visits = tree.freeze()
    assert sum(visits.length) == len(seen)
    for index, item in enumerate(items):
        borders = [0, *(end for _, end in spans(visits, index))]
        assert [begin for begin, _ in spans(visits, index)] == borders[:-1], "runs are in order"
        assert len(item.prompt) - 1 in borders
        assert borders[-1] == visits.size[index]
