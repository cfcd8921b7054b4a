"""The index of runs of three tokens, against a search by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radixchat.engine.ngram_index import SIZE, TOKEN_BITS, NgramIndex

TEXTS = st.lists(st.integers(0, 3), max_size=120)


def places_of(text: list[int], tokens: list[int]) -> list[int]:
    """Every place in `text` that comes after a run like the last SIZE of `tokens`."""
    run = tokens[-SIZE:]
    ends = range(SIZE, len(text) + 1)
    return [end for end in ends if text[end - SIZE : end] == run] if len(run) == SIZE else []


@given(TEXTS, TEXTS)
def test_the_earliest_and_the_latest_place(text: list[int], tokens: list[int]) -> None:
    """Both are found, and nothing where the run does not occur."""
    places = places_of(text, tokens)
    assert NgramIndex.of_earliest(text).find(tokens) == (places[0] if places else None)
    assert NgramIndex.of_latest(text).find(tokens) == (places[-1] if places else None)


@given(TEXTS, st.lists(st.integers(1, 60), max_size=6), TEXTS)
def test_growing_by_any_steps_is_indexing_at_once(
    text: list[int], steps: list[int], tokens: list[int]
) -> None:
    """Token by token, many at a time, or both, also where a step is shorter than a run."""
    index = NgramIndex.of_latest([])
    end = 0
    for step in steps:
        end = min(end + step, len(text))
        index.extend(text, end)
    index.extend(text, len(text))
    places = places_of(text, tokens)
    assert index.find(tokens) == (places[-1] if places else None)


def test_large_ids_are_told_apart() -> None:
    """The largest ids in any order are runs of their own."""
    top = 2**TOKEN_BITS - 1
    text = [top, 0, 1, 0, top, 1, 1, top, 0]
    index = NgramIndex.of_latest(text)
    for end in range(SIZE, len(text) + 1):
        assert index.find(text[:end]) == end
