"""Tests of server/heading.py."""

from __future__ import annotations

import pytest

from radixchat.engine.errors import InvalidRequest
from radixchat.server.heading import MAX_LETTERS, MAX_TITLE, check_title, heading


@pytest.mark.parametrize(
    ("title", "opening", "shown"),
    [
        ("Eggs", "How long?", "Eggs"),
        ("", "How  long\n do they\ttake?", "How long do they take?"),
        (" \n ", "Hi", "Hi"),
        ("a\nb\x1b[31m", "", "a b\ufffd[31m"),
        ("", "\x1b]52;c;x\x07\x9b", "\ufffd]52;c;x\ufffd\ufffd"),
        ("", "", ""),
    ],
)
def test_one_line(title: str, opening: str, shown: str) -> None:
    """The title, or the opening; neither breaks a line or carries a control character."""
    assert heading(title, opening) == shown


def test_a_long_opening_is_cut() -> None:
    """Sixty letters with the mark that there is more; a title is shown as it was given."""
    assert heading("", "word " * 40) == "word " * 11 + "word…"
    assert len(heading("", "x" * 200)) == MAX_LETTERS
    assert heading("", "x" * MAX_LETTERS) == "x" * MAX_LETTERS
    assert heading("x" * 200, "") == "x" * 200


def test_titles_have_an_end() -> None:
    """A title may be long; what is longer, or no valid Unicode, is refused."""
    assert check_title("x" * MAX_TITLE) == "x" * MAX_TITLE
    for title in ("x" * (MAX_TITLE + 1), "\ud800"):
        with pytest.raises(InvalidRequest, match="the title"):
            check_title(title)
