"""Control characters: none reaches a terminal, and ordinary text is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.chat_cli.control_characters import neutral_line, neutralise


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
    text = neutralise(attack)
    assert all(c in "\n\t" or c.isprintable() for c in text)


@given(st.text())
def test_any_text(text: str) -> None:
    """No C0 but newline and tab, no DEL, no C1; applied again, or in pieces, it is the same."""
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
    assert neutral_line("a\nb\u2028c\r\nd") == "a b c d"
