"""Which token would complete a forbidden sequence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixchat.engine.bad_words import BadWords

tokens = st.integers(0, 3)
texts = st.lists(tokens, max_size=12)
forbidden = st.lists(st.lists(tokens, min_size=1, max_size=4), max_size=6)


def completing(words: list[list[int]], text: list[int]) -> set[int]:
    return {word[-1] for word in words if [*text, word[-1]][-len(word) :] == word}


@given(forbidden, texts, texts)
def test_a_text_that_grew_bans_what_completes_a_word(
    words: list[list[int]], start: list[int], more: list[int]
) -> None:
    """After every token; a word may begin anywhere, in another one too."""
    bad, text = BadWords(words, start), list(start)
    assert set(bad.banned()) == completing(words, text)
    for token in more:
        bad.push(token)
        text.append(token)
        assert set(bad.banned()) == completing(words, text)


@given(forbidden, texts, texts)
def test_a_copy_goes_its_own_way(words: list[list[int]], start: list[int], more: list[int]) -> None:
    """What is pushed to a copy does not show in the one copied."""
    bad = BadWords(words, start)
    twin = bad.copy()
    for token in more:
        twin.push(token)
    assert set(bad.banned()) == completing(words, start)
    assert set(twin.banned()) == completing(words, [*start, *more])
