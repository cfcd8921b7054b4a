"""SGLang's tree: token-exact hits, and leaves that go whole."""

from __future__ import annotations

from radixchat.bench.sglang_leaves import SglangLeaves
from radixchat.tests.bench.traffic import ask, serve_all


def test_hits_are_exact_to_the_token() -> None:
    """A prompt finds what any other had in common with it, less its own last token."""
    arm = SglangLeaves(100)
    prompts = [[1, 2, 3, 4, 5], [1, 2, 3, 9], [1, 2, 3, 4, 5], [1, 2, 3, 4]]
    assert serve_all(arm, prompts) == [0, 3, 4, 3]
    assert arm.num_cached_units == 6


def test_the_reply_stays() -> None:
    """All of the reply but its last token is found by the next turn."""
    arm = SglangLeaves(100)
    arm.serve(ask([1, 2], [3, 4, 5]))
    assert arm.serve(ask([1, 2, 3, 4, 5, 6])) == 4


def test_a_leaf_is_lost_whole() -> None:
    """One token is missing, and the leaf of ten goes."""
    arm = SglangLeaves(12)
    serve_all(arm, [range(10), [50, 51, 52]])
    assert arm.evicted_units == 10
    assert arm.num_cached_units == 3
    assert arm.serve(ask(range(10))) == 0


def test_a_leaf_is_what_a_match_has_cut() -> None:
    """After a match ended in mid-node, only the part beyond goes."""
    arm = SglangLeaves(12)
    assert serve_all(arm, [range(8), [0, 1, 2, 3, 60]]) == [0, 4]
    assert arm.serve(ask([70, 71, 72, 73])) == 0, "the leaf [4, 8) makes room"
    assert arm.evicted_units == 4
    assert arm.serve(ask([0, 1, 2, 3, 60, 61])) == 5


def test_as_much_is_evicted_as_is_asked() -> None:
    """Four are needed and three are free: leaves go until four more came free, not one."""
    arm = SglangLeaves(9)
    serve_all(arm, [[1, 2], [3, 4], [5, 6], [7, 8, 9, 10]])
    assert arm.evicted_units == 4
    assert arm.num_cached_units == 6


def test_what_is_matched_is_not_evicted() -> None:
    """The path of the request stays, whatever its age."""
    arm = SglangLeaves(10)
    serve_all(arm, [[1, 2, 3, 4, 5], [6, 7, 8]])
    assert arm.serve(ask([1, 2, 3, 4, 5, 9, 9, 9, 9])) == 5
    assert arm.num_cached_units == 9


def test_decoding_makes_room_a_token_at_a_time() -> None:
    """The reply's second token finds no room; the leaf that goes has room for the rest."""
    arm = SglangLeaves(8)
    serve_all(arm, [[1, 2, 3], [4, 5]])
    arm.serve(ask([6, 7], [8, 9, 10]))
    assert arm.evicted_units == 3
    assert arm.serve(ask([6, 7, 8, 9, 10])) == 4
