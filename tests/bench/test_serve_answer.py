"""Gaps between tokens, from pieces of any size; what usage says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.bench.serve_answer import Answer, TokenCount, token_count


def answer(*pieces: tuple[float, str]) -> Answer:
    text = "".join(text for _, text in pieces)
    return Answer(text, 1.0, pieces, pieces[-1][0], "length", TokenCount())


def test_a_piece_a_token() -> None:
    """The gaps are those of the pieces, however long each is."""
    one = answer((2.0, "a"), (2.5, "bbbbbbbb"), (3.5, "c"))
    assert one.ttft == 1.0
    assert one.gaps(3) == [0.5, 1.0]


def test_a_piece_of_several_tokens_is_so_many_gaps() -> None:
    """Of equal length; the tokens that come with the first piece are waited for together."""
    assert answer((2.0, "aa"), (5.0, "bbbbbb")).gaps(4) == [1.0, 1.0, 1.0]
    assert answer((2.0, "aaaa"), (3.0, "bb")).gaps(3) == [0.0, 1.0]


def test_pieces_that_come_at_once_are_like_one() -> None:
    """A server may write its tokens one by one and send them together."""
    assert answer((2.0, "a"), (5.0, "b"), (5.0004, "c"), (5.0008, "d")).gaps(4) == [1.0] * 3
    assert answer((2.0, "a"), (2.0005, "b"), (3.0, "c")).gaps(3) == [0.0, 1.0]


def test_a_piece_that_is_part_of_a_token() -> None:
    """What it took is added to the gap that follows, or to the last one."""
    assert answer((2.0, "aaaa"), (3.0, "b"), (5.0, "cccc")).gaps(2) == [3.0]
    assert answer((2.0, "a")).gaps(1) == []


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20),
    waits=st.lists(st.integers(0, 9), min_size=20, max_size=20),
    tokens=st.integers(1, 60),
)
def test_there_is_a_gap_less_than_tokens(sizes: list[int], waits: list[int], tokens: int) -> None:
    """Together they last from the first piece to the last."""
    pieces, moment = [], 1.0
    for size, wait in zip(sizes, waits, strict=False):
        moment += wait
        pieces.append((moment, "x" * size))
    gaps = answer(*pieces).gaps(tokens)
    assert len(gaps) == tokens - 1
    if gaps:
        assert sum(gaps) == pytest.approx(moment - pieces[0][0])


def test_usage_is_read_as_far_as_it_goes() -> None:
    """Of both of OpenAI's forms; what is missing is unknown."""
    names = ("input_tokens", "output_tokens")
    usage = {"input_tokens": 9, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}}
    assert token_count(usage, names) == TokenCount(9, 4, 3)
    assert token_count({"input_tokens": 9, "input_tokens_details": None}, names) == TokenCount(9)
