"""Control characters: none reaches a terminal, and ordinary text is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.chat_cli.control_characters import (
    neutral_in_place,
    neutral_line,
    neutralise,
    without_controls,
)


@pytest.mark.parametrize(
    "attack",
    [
        "\x1b]52;c;ZXZpbA==\x07",
        "\x1b[2J",
        "\x9b31m",
        "\x1b]0;title",
        "safe\rEVIL",
        "\x7f\x08\x08",
        "\x90q\x9c",
    ],
)
def test_attacks(attack: str) -> None:
    """Escape sequences, C1 forms of them, overwriting and backspacing lose their effect."""
    for text in (neutralise(attack), without_controls(attack), neutral_in_place(attack)):
        assert all(c in "\n\t" or c.isprintable() for c in text)
    assert neutral_line(attack).isprintable()


@given(st.text())
def test_any_text(text: str) -> None:
    """No C0 but newline and tab, no DEL, no C1; applied again, or in pieces, it is the same."""
    assert len(neutral_in_place(text)) == len(text)
    assert neutral_in_place(text).replace("\u240d", "") == neutralise(text).replace("\u240d", "")
    assert without_controls(text).replace("\u2028", "\n").replace("\u2029", "\n") == neutralise(
        text
    )
    result = neutralise(text)
    assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in result)
    assert neutralise(result) == result
    assert neutralise(text[:3]) + neutralise(text[3:]) == result


def test_ordinary_text() -> None:
    """Letters, emoji sequences, newlines and tabs stay; CRLF becomes LF."""
    text = "Größe\t漢字\n👩‍👩‍👧 שלום"
    assert neutralise(text) == text
    assert neutralise("a\r\nb") == "a\nb"


def test_visible() -> None:
    """What was there can be seen."""
    assert neutralise("\x1b[31m") == "␛[31m"


def test_one_line() -> None:
    """A title or an error cannot make lines of its own."""
    assert neutral_line("a\nb\u2028c\r\nd\te") == "a b c d e"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("invoice_\u202etxt.exe", "invoice_\ufffdtxt.exe"),
        ("a\u2066b\u2069", "a\ufffdb\ufffd"),
        ("pay\u200bpal\u2060\ufeff\u00ad", "pay\ufffdpal\ufffd\ufffd\ufffd"),
        ("\u3164\uffa0", "\ufffd\ufffd"),
        ("ok\U000e0068\U000e0069", "ok"),
    ],
)
def test_what_fools_the_reader_of_a_name(name: str, shown: str) -> None:
    """What reorders the words beside it, or cannot be seen, is shown or gone in one line."""
    assert neutral_line(name) == shown
    assert neutralise(name) == name


@pytest.mark.parametrize("name", ["שלום עולם", "می\u200cخواهم", "👩‍👩‍👧 ❤️", "مرحبا\u200f!", "é"])
def test_ordinary_names(name: str) -> None:
    """Names in Hebrew, Arabic, Persian and emoji stay as they are."""
    assert neutral_line(name) == name
