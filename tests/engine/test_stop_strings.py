"""Stop strings: the first to be complete is found, whatever overlaps, and nothing else waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.engine.stop_strings import Place, StopStrings

TEXTS = st.text(alphabet="ab猫\n", max_size=12)
STOPS = st.lists(st.text(alphabet="ab猫\n", min_size=1, max_size=5), max_size=4)


def walk(stops: StopStrings, text: str) -> tuple[Place, int]:
    """The place after the text, or at the first stop string in it, and how many characters in."""
    place = stops.root
    for count, char in enumerate(text, 1):
        place = place.links.get(char, stops.root)
        if place.found is not None:
            return place, count
    return place, len(text)


def first_stop(texts: list[str], text: str) -> tuple[int, int] | None:
    """Where the first stop string to be complete ends and begins, by looking for each."""
    places = ((text.find(stop), stop) for stop in texts)
    return min(((at + len(stop), at) for at, stop in places if at >= 0), default=None)


def waiting(texts: list[str], text: str) -> int:
    """The length of the longest end of the text that can still become the first stop string."""
    useful = [stop for stop in texts if first_stop(texts, stop[:-1]) is None]
    ends = (len(text) - at for at in range(len(text)))
    return next(
        (n for n in ends if any(s != text[-n:] and s.startswith(text[-n:]) for s in useful)), 0
    )


@given(texts=STOPS, text=TEXTS)
def test_the_first_stop_string_is_found_and_only_its_beginning_waits(
    texts: list[str], text: str
) -> None:
    """Against a search for each text in everything, and a look at every end of the text."""
    place, count = walk(StopStrings(texts), text)
    expected = first_stop(texts, text)
    if expected is None:
        assert place.found is None
        assert place.depth == waiting(texts, text)
    else:
        assert place.found is not None
        assert (count, count - len(place.found)) == expected


@pytest.mark.parametrize(
    ("texts", "text", "found", "begins"),
    [
        (["abc", "c"], "xabc", "abc", 1),  # both are complete at once: the one that began first
        (["abcd", "bc"], "abcd", "bc", 1),  # complete before the longer one
        (["aab"], "aaab", "aab", 1),  # the second a begins it again
        (["\n\n", "\nUser:"], "a\nUser:", "\nUser:", 1),
        (["猫👍"], "猫猫👍", "猫👍", 1),
    ],
)
def test_overlapping_stop_strings(texts: list[str], text: str, found: str, begins: int) -> None:
    """Which one it is, and where it begins."""
    place, count = walk(StopStrings(texts), text)
    assert place.found == found
    assert count - len(found) == begins


def test_a_stop_string_that_can_never_be_first_holds_nothing_back() -> None:
    """ "abcd" has "bc" in it, so an "a" is certain at once; "b" is not."""
    stops = StopStrings(["abcd", "bc"])
    assert walk(stops, "a")[0].depth == 0
    assert walk(stops, "ab")[0].depth == 1


def test_an_empty_stop_string_is_a_mistake_of_the_caller() -> None:
    """It would end every answer before it begins."""
    with pytest.raises(AssertionError, match="empty"):
        StopStrings(["a", ""])
