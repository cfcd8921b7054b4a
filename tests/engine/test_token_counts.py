"""Counts of a growing text against collections.Counter."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from radixchat.engine.token_counts import TokenCounts

texts = st.lists(st.integers(0, 30), max_size=60)


def counted(counts: TokenCounts) -> Counter[int]:
    return Counter(dict(zip(counts.ids.tolist(), counts.counts.tolist(), strict=True)))


@given(texts, texts)
def test_a_text_that_grew_is_counted_as_the_whole(start: list[int], more: list[int]) -> None:
    """Every distinct token once, with its count; a copy goes its own way, and so do the arrays."""
    counts = TokenCounts(start)
    twin, before = counts.copy(), counts.counts
    for token in more:
        twin.push(token)
    assert counted(twin) == Counter([*start, *more])
    assert counted(counts) == Counter(start)
    counts.push(3)
    assert before.sum() == len(start)
