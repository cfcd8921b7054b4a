"""Notes on standard error: one line each, neutralised, styled on terminals only."""

from __future__ import annotations

import re

import pytest
from rich.text import Text

from radixchat.chat_cli.notes import Notes
from radixchat.tests.chat_cli.consoles import Recording, console, notes


def test_on_a_pipe() -> None:
    """No escape sequences and no wrapping; each message is one line."""
    speaker, stream = notes()
    speaker.note("hello [b]world[/b] " + "long " * 40)
    speaker.error("bad\nthing\x1b[2J")
    speaker.aside("cached 1/2")
    assert stream.getvalue().splitlines() == [
        "note: hello [b]world[/b] " + "long " * 40,
        "error: bad thing␛[2J",
        "cached 1/2",
    ]


def test_on_a_terminal() -> None:
    """An aside is dim, and only the client's own escape sequences are there."""
    stream = Recording(terminal=True)
    Notes(console(stream)).aside("cached \x1b[5m1/2")
    assert stream.getvalue() == "\x1b[2mcached ␛[5m1/2\x1b[0m\n"


def test_wrapped_at_words() -> None:
    """A real terminal gets no word cut, unless it is longer than a line."""
    text = f"{'word ' * 5}{'x' * 25} end"
    stream = Recording(terminal=True)
    Notes(console(stream, width=20)).aside(text)
    shown = stream.getvalue().replace("\x1b[2m", "").replace("\x1b[0m", "")
    lines = [line.rstrip() for line in shown.splitlines()]
    assert lines == ["word word word word", "word", "x" * 20, "xxxxx end"]


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR an error is not red."""
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Recording(terminal=True)
    Notes(console(stream)).error("bad")
    assert stream.getvalue() == "error: bad\n"


def test_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """TERM=dumb gets text only, and nothing that would have to be taken back."""
    monkeypatch.setenv("TERM", "dumb")
    stream = Recording(terminal=True)
    speaker = Notes(console(stream))
    speaker.aside("one")
    with speaker.during("loading"):
        pass
    assert stream.getvalue() == "one\n"


def test_table() -> None:
    """Names are aligned."""
    speaker, stream = notes()
    speaker.table({"a": "1", "long name": "2"})
    assert stream.getvalue() == "a          1\nlong name  2\n"


def _table(rows: dict[str, str], width: int) -> list[str]:
    stream = Recording(terminal=True)
    Notes(console(stream, width=width)).table(rows)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_table_on_a_terminal() -> None:
    """A long value stays in its column; in a narrow window, below its name."""
    rows = {"/a [N]": "does one thing, and then another one", "/b": "", "/c": "谢谢"}
    assert _table(rows, 34) == [
        "/a [N]  does one thing, and then",
        "        another one",
        "/b",
        "/c      谢谢",
    ]
    assert _table(rows, 20) == [
        "/a [N]",
        "    does one thing,",
        "    and then another",
        "    one",
        "/b",
        "/c      谢谢",
    ]


def test_passing_line() -> None:
    """On a terminal a passing line is erased, also when the work fails; a pipe never sees it."""
    stream = Recording(terminal=True)
    with pytest.raises(ValueError, match="work"), Notes(console(stream)).during("loading"):
        raise ValueError("work")
    assert "loading" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")
    speaker, pipe = notes()
    with speaker.during("loading"):
        pass
    assert pipe.getvalue() == ""


def test_a_note_during_a_passing_line_takes_its_place() -> None:
    """The note stays, and the passing line goes on below it."""
    stream = Recording(terminal=True)
    speaker = Notes(console(stream))
    with speaker.during("loading"):
        speaker.note("compiling")
    text = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert text == "loading\r\x1b[Knote: compiling\nloading\r\x1b[K"


def test_styled() -> None:
    """Lines with styles: plain on a pipe; on a terminal styled, and no escape of others works."""
    text = Text.assemble(("hot", "bold"), " \x1b[2Jx\u202e\n", ("cold\r", "dim"))
    speaker, pipe = notes()
    speaker.styled(text)
    assert pipe.getvalue() == "hot ␛[2Jx\u202e\ncold\n"
    stream = Recording(terminal=True)
    Notes(console(stream)).styled(text)
    assert stream.getvalue() == "\x1b[1mhot\x1b[0m ␛[2Jx\u202e\n\x1b[2mcold\x1b[0m\n"


def test_heading() -> None:
    """Which of several answers comes, on a line of its own."""
    speaker, stream = notes()
    speaker.heading("answer 2 of 3\n")
    assert stream.getvalue() == "── answer 2 of 3  ──\n"


def test_quiet() -> None:
    """Only errors are said, and what a command was asked to show."""
    stream = Recording(terminal=True)
    speaker = Notes(console(stream), quiet=True)
    speaker.note("note")
    speaker.aside("aside")
    speaker.heading("heading")
    with speaker.during("loading"):
        pass
    assert stream.getvalue() == ""
    speaker.table({"a": "1"})
    speaker.styled(Text("tree"))
    assert stream.getvalue() == "a  1\ntree\n"
    speaker.error("bad")
    assert "error: bad" in stream.getvalue()
