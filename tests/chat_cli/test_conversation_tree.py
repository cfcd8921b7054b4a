"""The branches of a conversation: in an order that stays, however large the tree is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from radixchat.chat_cli.conversation_tree import branch_ends, runs, tip
from radixchat.server.protocol import TreeMessage
from radixchat.tests.chat_cli.trees import tree

ALIKE = tree("s", "s-u", "u-a1", "u-a2", "u-a3", "a1-v1", "a1-v2")


def shape(messages: Sequence[TreeMessage]) -> list[tuple[str, int, bool, int | None]]:
    return [
        (" ".join(m.id for m in run.messages), run.depth, run.is_offshoot, run.number)
        for run in runs(messages)
    ]


def test_runs() -> None:
    """Older siblings are offshoots, the newest goes on in the column of its parent."""
    assert shape(ALIKE) == [
        ("s u", 0, False, None),
        ("a1", 1, True, None),
        ("v1", 2, True, 1),
        ("v2", 1, False, 2),
        ("a2", 1, True, 3),
        ("a3", 0, False, 4),
    ]
    assert branch_ends(ALIKE) == ("v1", "v2", "a2", "a3")


def test_nothing_and_one() -> None:
    """No message has no branch; one message is one."""
    assert shape([]) == []
    assert branch_ends([]) == ()
    assert tip([]) is None
    assert shape(tree("u")) == [("u", 0, False, 1)]


def test_several_beginnings() -> None:
    """Another system message, or another first turn: branches from the beginning on."""
    assert shape(tree("s1", "s1-u1", "s2", "s2-u2")) == [
        ("s1 u1", 1, True, 1),
        ("s2 u2", 0, False, 2),
    ]


def test_a_parent_that_is_not_there() -> None:
    """What somebody else's history leads to begins a branch here."""
    assert shape(tree("gone-u", "u-a")) == [("u a", 0, False, 1)]


def test_numbers_do_not_depend_on_where_one_is() -> None:
    """The path changes nothing, nor does the order in which messages are given."""
    there = tree(*(f"{m.parent}-{m.id}" if m.parent else m.id for m in ALIKE), path="s u a1 v1")
    assert branch_ends(there) == branch_ends(ALIKE)
    assert branch_ends(tuple(reversed(there))) == branch_ends(ALIKE)
    assert tip(there) == "v1"


def test_newer_branches_leave_the_numbers_before_them() -> None:
    """A branch that is added at the end of a run has the next number of its parent's."""
    more = (*ALIKE, *tree("u-a4", after=100))
    assert branch_ends(more) == ("v1", "v2", "a2", "a3", "a4")


@pytest.mark.parametrize("count", [1, 5000])
def test_a_deep_path(count: int) -> None:
    """Thousands of messages in a row are one run."""
    chain = ["0", *(f"{number}-{number + 1}" for number in range(count))]
    assert len(runs(tree(*chain))) == 1
    assert branch_ends(tree(*chain)) == (str(count),)


def test_deep_and_branching() -> None:
    """Every message of a long path has another answer: no recursion, and all are numbered."""
    links = ["0"]
    for number in range(5000):
        links += [f"{number}-x{number}", f"{number}-{number + 1}"]
    found = runs(tree(*links))
    assert [run.number for run in found if run.number] == list(range(1, 5002))
    assert max(run.depth for run in found) == 1
