"""TGI's tree: prompts only, trimmed from the end."""

from __future__ import annotations

from radixchat.bench.tgi_prompts import TgiPrompts
from radixchat.tests.bench.traffic import ask, serve_all


def test_the_reply_is_computed_again() -> None:
    """The next turn finds the prompt before and nothing of the reply; the turn after finds it."""
    arm = TgiPrompts(100)
    arm.serve(ask([1, 2], [3, 4, 5]))
    assert arm.serve(ask([1, 2, 3, 4, 5, 6])) == 2
    assert arm.serve(ask([1, 2, 3, 4, 5, 6, 7])) == 6


def test_the_last_token_is_computed() -> None:
    """A prompt that is cached as a whole counts one less."""
    arm = TgiPrompts(100)
    assert serve_all(arm, [[1, 2, 3], [1, 2, 3], [1, 2]]) == [0, 2, 1]


def test_exactly_what_is_needed_goes_from_the_end() -> None:
    """Two tokens are missing: the oldest leaf loses its last two."""
    arm = TgiPrompts(10)
    serve_all(arm, [range(8), [50, 51, 52, 53]])
    assert arm.evicted_units == 2
    assert arm.num_cached_units == 10
    assert arm.serve(ask(range(8))) == 6


def test_the_reply_needs_room_while_it_is_made() -> None:
    """Room for the reply is made before, and is free afterwards."""
    arm = TgiPrompts(10)
    serve_all(arm, [range(8)])
    arm.serve(ask([50], [51, 52, 53, 54]))
    assert arm.evicted_units == 2
    assert arm.num_cached_units == 7


def test_least_recently_used_first() -> None:
    """A prompt that was looked up again stays before one that was not."""
    arm = TgiPrompts(6)
    serve_all(arm, [[1, 2, 3], [4, 5, 6], [1, 2, 3], [7, 8]])
    assert arm.serve(ask([4, 5, 6])) == 1
