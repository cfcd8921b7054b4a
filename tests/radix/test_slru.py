"""Tests of segmented LRU, against a reference that scores all leaves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.radix.node import Node
from radixchat.radix.slru import SlruPolicy
from radixchat.radix.use import Signal, Use
from radixchat.tests.radix.leaves import make_leaf


def _leaf(stamp: int, num_pages: int = 1, reused: bool = False) -> Node:
    return make_leaf(Use(stamp, 0.0, None, 0, reused=reused), 4 * num_pages)


def test_what_was_used_once_goes_first() -> None:
    """A leaf that was reused stays longer than any that was not, however recent."""
    policy = SlruPolicy(10)
    reused, old, new = _leaf(1, reused=True), _leaf(2), _leaf(3)
    for leaf in (new, reused, old):
        policy.add(leaf)
    for expected in (old, new, reused):
        assert policy.victim() is expected
        policy.discard(expected)
    assert policy.victim() is None


def test_half_of_the_pool_is_protected() -> None:
    """Beyond half of the pages the least recent protected leaves compete at their own stamp."""
    policy = SlruPolicy(10)
    first, second, third = (_leaf(stamp, 2, reused=True) for stamp in (1, 3, 4))
    probation = _leaf(2)
    for leaf in (first, second, probation):
        policy.add(leaf)
    assert policy.victim() is probation, "four pages are not more than half"
    policy.add(third)
    assert policy.victim() is first, "six are: the least recent one has been demoted"
    policy.discard(first)
    assert policy.victim() is probation
    policy.discard(third)
    policy.discard(second)
    policy.add(first)
    assert policy.victim() is probation, "there is room again when it joins the next time"


def test_a_leaf_larger_than_half_of_the_pool_is_not_protected() -> None:
    """It would be the only one, and could never be evicted before what is used once."""
    policy = SlruPolicy(4)
    large, once = _leaf(1, 3, reused=True), _leaf(2)
    policy.add(once)
    policy.add(large)
    assert policy.victim() is large
    assert sorted(map(id, policy.leaves())) == sorted(map(id, (once, large)))


def test_signals_change_nothing() -> None:
    """What is heard of a conversation is none of its business."""
    policy, leaf = SlruPolicy(4), _leaf(1)
    policy.add(leaf)
    policy.observe("a", Signal.CLOSED)
    assert policy.victim() is leaf


def test_a_pool_has_a_page() -> None:
    """No page to protect half of: refused with the value."""
    with pytest.raises(ValueError, match="num_pages is 0"):
        SlruPolicy(0)


class _NaiveSlru:
    """The rule over a plain list."""

    def __init__(self, num_pages: int) -> None:
        self.half = num_pages / 2
        self.leaves: list[tuple[Node, bool]] = []  # and whether it is protected

    def add(self, leaf: Node) -> None:
        self.leaves.append((leaf, leaf.use.reused))
        while sum(len(each.pages) for each, safe in self.leaves if safe) > self.half:
            oldest = min((each.use.stamp, n) for n, (each, safe) in enumerate(self.leaves) if safe)
            self.leaves[oldest[1]] = self.leaves[oldest[1]][0], False

    def discard(self, leaf: Node) -> None:
        self.leaves = [entry for entry in self.leaves if entry[0] is not leaf]

    def victim(self) -> Node | None:
        if not self.leaves:
            return None
        return min(self.leaves, key=lambda entry: (entry[1], entry[0].use.stamp))[0]


_STEPS = st.lists(
    st.tuples(st.sampled_from("aaadt"), st.integers(1, 6), st.booleans(), st.integers(0, 50)),
    max_size=60,
)


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 30), _STEPS)
def test_victims_are_those_of_the_definition(
    num_pages: int, steps: list[tuple[str, int, bool, int]]
) -> None:
    """Leaves that join, leave and are trimmed: the same victim as the naive rule at each step."""
    policy, naive = SlruPolicy(num_pages), _NaiveSlru(num_pages)
    for number, (what, size, reused, which) in enumerate(steps):
        inside = [leaf for leaf, _ in naive.leaves]
        if what == "a":
            # A parent joins with an older stamp than what is there.
            leaf = _leaf(1000 * number - 3001 * (which % 2), size, reused)
            policy.add(leaf)
            naive.add(leaf)
        elif inside:
            leaf = inside[which % len(inside)]
            policy.discard(leaf)
            naive.discard(leaf)
            if what == "t" and len(leaf.pages) > 1:
                leaf.pages.pop()
                policy.add(leaf)
                naive.add(leaf)
        assert policy.victim() is naive.victim()
        assert len(list(policy.leaves())) == len(naive.leaves)
