"""What is shown of a text that was found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.server.store_snippet import AFTER, BEFORE, snippet

LOREM = " ".join(f"word{number}" for number in range(200))


@pytest.mark.parametrize(
    ("text", "terms", "expected"),
    [
        ("The Needle, found", ["needle"], "The \u00abNeedle\u00bb, found"),
        ("needles and a kneedle", ["needle"], "\u00abneedle\u00bbs and a kneedle"),
        ("Crème brûlée", ["creme", "BRULEE"], "\u00abCrème\u00bb \u00abbrûlée\u00bb"),
        ("cre\u0300me", ["crème"], "\u00abcre\u0300me\u00bb"),
        ("a - b c", ["b c"], "a - \u00abb c\u00bb"),
        ("one,\n\ntwo", ["one two"], "\u00abone, two\u00bb"),
        ("snake_case", ["case"], "snake_\u00abcase\u00bb"),
        ("我说你好世界", ["你好"], "我说\u00ab你好\u00bb世界"),
        ("(a+)+$ [b]", ["(a+)+$"], "(\u00aba\u00bb+)+$ [b]"),
        ("nothing of it", ["else"], "nothing of it"),
        ("", ["else"], ""),
    ],
)
def test_marks(text: str, terms: list[str], expected: str) -> None:
    """The words, whatever their case and accents, on one line."""
    assert snippet(text, terms) == expected


def test_a_long_text_is_cut_around_the_first_word() -> None:
    """At spaces, with an ellipsis where something is missing."""
    shown = snippet(LOREM, ["word100"])
    assert shown.startswith("…word9")
    assert "\u00abword100\u00bb word101" in shown
    assert shown.endswith("…")
    assert len(shown) <= BEFORE + AFTER + 6
    assert snippet(LOREM, ["word0"]).startswith("\u00abword0\u00bb")
    assert snippet(LOREM, ["word199"]).endswith("\u00abword199\u00bb")
    assert snippet(LOREM, ["else"]).startswith("word0 word1")


@given(st.text(), st.lists(st.text(min_size=1), min_size=1, max_size=3))
def test_any_text_and_any_terms(text: str, terms: list[str]) -> None:
    """It is a part of the text, on one line, whatever the terms are."""
    if all(any(map(str.isalnum, term)) for term in terms):
        shown = snippet(text, terms)
        bare = shown.replace("\u00ab", "").replace("\u00bb", "").strip("…")
        whole = " ".join(text.split()).replace("\u00ab", "").replace("\u00bb", "")
        assert "".join(bare.split()) in "".join(whole.split())
