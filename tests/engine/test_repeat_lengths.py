"""Match lengths of a growing text against a search of the whole."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from radixchat.engine.repeat_lengths import MAX_LENGTH, RepeatLengths

texts = st.lists(st.integers(0, 3), max_size=40)
breakers = st.frozensets(st.integers(0, 3), max_size=2)


def found(lengths: RepeatLengths, at_least: int) -> dict[int, int]:
    ids, longest = lengths.prolonging(at_least)
    assert len(set(ids.tolist())) == len(ids)
    return dict(zip(ids.tolist(), longest.tolist(), strict=True))


def searched(tokens: Sequence[int], breaks: frozenset[int], at_least: int) -> dict[int, int]:
    """Compare every end with the text's own, backwards."""
    longest: dict[int, int] = {}
    for end in range(len(tokens) - 1):
        length = 0
        while length <= end and tokens[end - length] == tokens[-1 - length]:
            if tokens[end - length] in breaks:
                break
            length += 1
        if length >= at_least and tokens[end + 1] not in breaks:
            longest[tokens[end + 1]] = max(length, longest.get(tokens[end + 1], 0))
    return longest


@given(texts, texts, breakers, st.integers(1, 4))
def test_a_text_that_grew_equals_a_search_of_the_whole(
    start: list[int], more: list[int], breaks: frozenset[int], at_least: int
) -> None:
    """After every token, and whatever was there when it began."""
    lengths, tokens = RepeatLengths(start, breaks), list(start)
    assert found(lengths, at_least) == searched(tokens, breaks, at_least)
    for token in more:
        lengths.push(token)
        tokens.append(token)
        assert found(lengths, at_least) == searched(tokens, breaks, at_least)


@given(texts, texts, breakers)
def test_a_copy_goes_its_own_way(start: list[int], more: list[int], breaks: frozenset[int]) -> None:
    """What is pushed to a copy does not show in the one copied."""
    lengths = RepeatLengths(start, breaks)
    twin = lengths.copy()
    for token in more:
        twin.push(token)
    assert found(lengths, 1) == searched(start, breaks, 1)
    assert found(twin, 1) == searched([*start, *more], breaks, 1)


def test_very_long_matches_count_as_the_longest_that_does() -> None:
    """A text of one token stays cheap to begin with, and equals the one that grew to it."""
    whole, grown = RepeatLengths([5] * 1_000, frozenset()), RepeatLengths([], frozenset())
    for _ in range(1_000):
        grown.push(5)
    assert found(whole, 1) == found(grown, 1) == {5: MAX_LENGTH}
