"""Streaming Markdown: however it is cut, the scrollback is the document."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from radixchat.chat_cli.markdown_answer import CREDIT_SECONDS, REDRAW_SECONDS, MarkdownAnswer
from radixchat.tests.chat_cli.terminal_screen import TerminalScreen

HEIGHT = 10

FRAGMENTS = (
    *("text ", "**bold", "** ", "*em* ", "`code` ", "\n", "\n\n", "# H ", "#", "- item", "+ "),
    *("1. one", "2. two", "10) ten", "> quote", "```\n", "```python\n", "~~~\n", "def f():\n"),
    *("    indented", "| a | b |", "|---|---|", "| 😀 | 漢字 |", "---", "===", "  ", "\t"),
    *("<div>", "<b>x</b>", "[x]: http://a\n", "[x]", "[l](http://u)", "![i](s)", "- [ ] t"),
    *(
        "👩‍👩‍👧",
        "漢字漢字",
        "&#13;",
        "&#27;",
        "* * *",
        "\\",
        "\r\n",
        "a" * 30,
        "\x1b[31m",
        "\u2028",
    ),
)
DOCUMENTS = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join)

SAMPLE = """# The sea at twenty columns

It is **wide**, and `deep`, and it goes on for longer than a row.
A second line stays a line.

- one item
- another, which is long enough to wrap twice at twenty columns

| animal | sign | 名前 |
|---|:---:|---:|
| whale | 🐳 | 鯨 |
| family | 👩‍👩‍👧 | 家族 |

```python
def depth(metres: int) -> str:
    return f"{metres} m"
```

1. first
2. second

The end.
"""


class Window:
    """A terminal with an answer streaming into it, at a clock that the test moves."""

    def __init__(self, columns: int, *, height: int = HEIGHT, live: bool = True) -> None:
        self.output = io.StringIO()
        self.screen = TerminalScreen(columns, height)
        self.console = Console(
            file=self.output,
            force_terminal=True,
            width=columns,
            height=height,
            color_system="standard",
        )
        self.now = self.work = 0.0
        self.answer = MarkdownAnswer(
            self.console, live=live, clock=lambda: self.now, work=lambda: self.work
        )

    def feed(self, delta: str) -> None:
        self.now += REDRAW_SECONDS
        self.answer.feed(delta)
        self.show()

    def show(self) -> None:
        self.screen.feed(self.output.getvalue())
        self.output.seek(0)
        self.output.truncate()

    def close(self) -> list[str]:
        self.answer.close()
        self.show()
        return self.screen.lines


def streamed(chunks: Iterable[str], columns: int, *, live: bool = True) -> list[str]:
    """The scrollback and screen after the chunks."""
    window = Window(columns, live=live)
    for chunk in chunks:
        window.feed(chunk)
    return window.close()


def pieces(text: str, generator: random.Random) -> list[str]:
    """The text, cut at random."""
    chunks = []
    while text:
        size = generator.choice((1, 1, 2, 3, 7, 20))
        chunks.append(text[:size])
        text = text[size:]
    return chunks


@settings(max_examples=30, deadline=None)
@given(DOCUMENTS, st.sampled_from((8, 20, 40)), st.randoms(use_true_random=False))
def test_scrollback_is_the_document(text: str, columns: int, generator: random.Random) -> None:
    """Any text, cut anywhere: the same rows as when it comes at once, and no escape of its own."""
    chunks = pieces(text, generator)
    whole = streamed([text], columns)
    assert streamed(chunks, columns) == whole
    assert streamed(chunks, columns, live=False) == whole


@pytest.mark.parametrize("columns", [20, 80])
def test_character_by_character(columns: int) -> None:
    """A document of every construct, a character at a time, with emoji and wide characters."""
    lines = streamed(SAMPLE, columns)
    assert lines == streamed([SAMPLE], columns)
    assert "鯨" in "".join(lines)
    assert lines[-1] == "The end."


def test_what_is_on_the_screen_while_it_streams() -> None:
    """Each delta is shown at once, an unclosed fence as code, an unclosed emphasis as text."""
    window = Window(40)
    window.feed("Look: **bo")
    assert window.screen.lines == ["Look: **bo"]
    window.feed("ld**\n\n```python\nx = ")
    assert window.screen.lines == ["Look: bold", "", "```python", "x =", "```"]
    window.feed("1\n```\n")
    assert window.screen.lines == ["Look: bold", "", "```python", "x = 1", "```"]


def test_waiting_is_shown_and_vanishes() -> None:
    """Before the first token there is a mark; an answer without text leaves nothing."""
    window = Window(40)
    window.show()
    assert window.screen.lines == ["…"]
    assert window.close() == []


def test_a_block_taller_than_the_screen() -> None:
    """Its end is in view while it grows; once finished it is whole, below what was there."""
    window = Window(40)
    window.feed("Before.\n\n")
    for number in range(50):
        window.feed(f"> line {number}\n")
        assert f"▌ line {number}" in window.screen.lines
        assert len(window.screen.lines) <= HEIGHT + 2
    lines = window.close()
    assert lines[:2] == ["Before.", ""]
    assert lines[2:] == [f"▌ line {number}" for number in range(50)]


LONG: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "fence": ("```python\n", "x{0} = {0}\n"),
        "list": ("", "- item {0}\n"),
        "ordered list": ("", "1. item {0}\n"),
        "lines": ("", "line {0}\n"),
        "paragraph": ("", "word{0} **bold {0}** `code {0}` and "),
        "reasoning": ("<think>\n", "thought {0}\n"),
        "one thought": ("<think>", "thought {0} and "),
    }
)


@pytest.mark.parametrize("kind", LONG)
def test_what_has_left_the_screen_is_in_the_scrollback(kind: str) -> None:
    """A long block can be scrolled back in while it grows: nearly all of it is final."""
    opening, unit = LONG[kind]
    window = Window(40)
    window.feed(opening)
    for number in range(0, 120, 4):
        window.feed("".join(unit.format(number + i) for i in range(4)))
    shown = window.screen.lines
    lines = window.close()
    assert lines == streamed([opening + "".join(map(unit.format, range(120)))], 40)
    assert len(lines) > 4 * HEIGHT
    assert len(shown) > len(lines) - HEIGHT
    assert shown[:-HEIGHT] == lines[: len(shown) - HEIGHT]


@pytest.mark.parametrize("after", [12, 20, 60])
@pytest.mark.parametrize("at", range(10, len(SAMPLE), 130))
def test_resize(after: int, at: int) -> None:
    """A window resized in the middle shows every word once, in order: no copy, no loss.

    As long as the open block still fits: rows that reflow past the top are out of reach.
    """
    numbered = re.sub(r"\b[a-z]{3,}\b", lambda match: f"{match[0]}{match.start()}", SAMPLE)
    window = Window(40, height=40)
    for start in range(0, at, 4):
        window.feed(numbered[start : min(start + 4, at)])
    window.screen.resize(after, 40)
    window.console.width = after
    for start in range(at, len(numbered), 4):
        window.feed(numbered[start : start + 4])
    shown = "".join(window.close()).replace(" ", "")
    words = [word for word in re.findall(r"[a-z]{3,}\d+", numbered) if "python" not in word]
    table = [word for word in words if word.startswith(("animal", "sign", "whale", "family"))]
    for word in words:
        if word not in table:  # a narrow table cuts its words over several rows
            assert shown.count(word) == 1, (word, window.screen.lines)
    positions = [shown.index(word) for word in words if word not in table]
    assert positions == sorted(positions)


@pytest.mark.parametrize(("work", "writing", "share"), [(0.02, 0.0, 25), (0.0, 0.05, 4)])
def test_redraws_are_bounded(work: float, writing: float, share: int) -> None:
    """Drawing that costs much is rare, as is writing to a slow terminal; the end is shown."""
    window = Window(40)
    slow = _SlowFile(window, work, writing)
    window.console.file = slow
    for number in range(2000):
        window.now += 0.001
        window.answer.feed(f"word{number} ")
    assert window.now > 1.9
    assert 5 <= slow.writes <= 2 + (window.now + CREDIT_SECONDS) / (share * (work + writing))
    window.answer.close()
    assert "word1999" in slow.getvalue()


class _SlowFile(io.StringIO):
    """Takes so many seconds for each write, of the window's CPU and of its time."""

    def __init__(self, window: Window, work: float, writing: float) -> None:
        super().__init__()
        self.writes = 0
        self._window = window
        self._work, self._writing = work, writing

    def write(self, text: str) -> int:
        if text:
            self.writes += 1
            self._window.work += self._work
            self._window.now += self._writing
        return super().write(text)


@pytest.mark.parametrize("columns", [10, 80])
def test_a_remark_passes(columns: int) -> None:
    """It stands below what is there, in one row; what comes next takes its place."""
    window = Window(columns)
    window.feed("Some *text*\n\nand")
    assert window.answer.remark("a remark\x1b[2J\nthat is long")
    window.show()
    shown = window.screen.lines
    assert shown[-2:] == ["and", "a remark␛[2J that is long"[:columns]]
    assert window.answer.remark("a remark\x1b[2J\nthat is long")
    window.show()
    assert window.screen.lines == shown
    window.feed(" more")
    assert window.screen.lines[-1] == "and more"
    window.answer.remark("another")
    assert window.close() == streamed(["Some *text*\n\nand more"], columns)
    assert not window.answer.remark("too late")
    assert not Window(columns, live=False).answer.remark("no place")
