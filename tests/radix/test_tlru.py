"""Tests of tail-optimised LRU, against a reference that scores all leaves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.radix.node import TOKEN_BYTES, Node
from radixchat.radix.tlru import TlruPolicy
from radixchat.radix.use import Signal, Use
from radixchat.tests.radix.leaves import make_leaf


def _leaf(stamp: int, num_tokens: int, length: int | None = None) -> Node:
    use = Use(stamp, 0.0, None, num_tokens if length is None else length)
    return make_leaf(use, num_tokens)


def test_what_a_fast_turn_can_do_without_goes_first() -> None:
    """Of 100 tokens with 5 to come and 25 that may be computed, the tip beyond 80 is surplus."""
    policy = TlruPolicy(xi=25, next_turn=5)
    needed, surplus, border = _leaf(1, 80, length=100), _leaf(3, 81, length=100), _leaf(2, 20)
    for leaf in (needed, surplus, border):
        policy.add(leaf)
    assert policy.victim() is border, "nothing of a short one is needed; the least recent first"
    policy.discard(border)
    assert policy.victim() is surplus
    policy.discard(surplus)
    del surplus.key[80 * TOKEN_BYTES :]
    policy.add(surplus)
    assert policy.victim() is needed, "trimmed to the border: least recent first"
    policy.discard(needed)
    policy.discard(surplus)
    assert policy.victim() is None


def test_a_long_next_turn_needs_all() -> None:
    """When a turn brings more than may be computed, no tip is surplus."""
    policy = TlruPolicy(xi=10, next_turn=50)
    old, new = _leaf(1, 4), _leaf(2, 400)
    policy.add(new)
    policy.add(old)
    policy.observe("a", Signal.CLOSED)
    assert policy.victim() is old
    assert len(list(policy.leaves())) == 2


def test_lengths_are_not_negative() -> None:
    """A negative length is refused with the value."""
    with pytest.raises(ValueError, match="xi is -1 tokens"):
        TlruPolicy(xi=-1)
    with pytest.raises(ValueError, match="next_turn is -2 tokens"):
        TlruPolicy(next_turn=-2)


_STEPS = st.lists(
    st.tuples(st.sampled_from("aaadt"), st.integers(1, 60), st.integers(0, 60), st.integers(0, 50)),
    max_size=60,
)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 50), st.integers(0, 20), _STEPS)
def test_victims_are_those_of_the_definition(
    xi: int, next_turn: int, steps: list[tuple[str, int, int, int]]
) -> None:
    """Leaves that join, leave and are trimmed: the same victim as the naive rule at each step."""
    policy, inside = TlruPolicy(xi, next_turn), list[Node]()
    for number, (what, size, more, which) in enumerate(steps):
        if what == "a":
            leaf = _leaf(1000 * number - 3001 * (which % 2), size, size + more)
            policy.add(leaf)
            inside.append(leaf)
        elif inside:
            leaf = inside[which % len(inside)]
            policy.discard(leaf)
            inside.remove(leaf)
            if what == "t" and leaf.end > 1:
                del leaf.key[-TOKEN_BYTES:]
                policy.add(leaf)
                inside.append(leaf)
        expected = min(
            inside,
            key=lambda leaf: (
                leaf.end <= max(0, leaf.use.length + next_turn - xi),
                leaf.use.stamp,
            ),
            default=None,
        )
        assert policy.victim() is expected
