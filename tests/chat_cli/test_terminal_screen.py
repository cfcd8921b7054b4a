"""The tests' terminal: it wraps, scrolls and reflows as real ones do."""

from __future__ import annotations

import pytest

from radixchat.tests.chat_cli.terminal_screen import TerminalScreen


def test_wrapping() -> None:
    """A full row waits for the next character before it wraps; a wide one does not straddle."""
    screen = TerminalScreen(4, 3)
    screen.feed("abcd\nefgh漢i漢")
    assert screen.lines == ["abcd", "efgh", "漢i", "漢"]
    assert screen.logical_lines == ["abcd", "efgh漢i漢"]


def test_no_wrapping() -> None:
    """With wrapping off the last column is overwritten."""
    screen = TerminalScreen(4, 3)
    screen.feed("\x1b[?7labcdef\x1b[?7h\nx")
    assert screen.lines == ["abcf", "x"]


def test_the_scrollback_cannot_be_reached() -> None:
    """The cursor stops at the top of the screen; what scrolled away stays."""
    screen = TerminalScreen(10, 2)
    screen.feed("one\ntwo\nthree\x1b[9A\r\x1b[Jnew")
    assert screen.lines == ["one", "new"]


def test_reflow() -> None:
    """A narrower window wraps what is too long, a wider one joins it again."""
    screen = TerminalScreen(6, 3)
    screen.feed("abcdef\nxy\r\x1b[1A")
    screen.resize(3, 3)
    assert screen.lines == ["abc", "def", "xy"]
    screen.resize(6, 3)
    screen.feed("\x1b[J")
    assert screen.lines == []


def test_a_saved_cursor() -> None:
    """It comes back to the same place of the window, whatever has scrolled there."""
    screen = TerminalScreen(10, 2)
    screen.feed("one\x1b7\ntwo\nthree\x1b8!")
    assert screen.lines == ["one", "two!", "three"]


def test_unknown_sequences_fail() -> None:
    """A sequence or a control character that it does not know is an error."""
    with pytest.raises(AssertionError, match="unknown sequence"):
        TerminalScreen(4, 3).feed("\x1b[3S")
    with pytest.raises(AssertionError, match="control character"):
        TerminalScreen(4, 3).feed("\x05")


def test_a_sequence_in_pieces() -> None:
    """What is read of a program may end anywhere in a sequence."""
    screen = TerminalScreen(10, 2)
    for piece in ("ab\x1b", "[", "1", "Dc\x1b[?25", "l", "d"):
        screen.feed(piece)
    assert screen.lines == ["acd"]
