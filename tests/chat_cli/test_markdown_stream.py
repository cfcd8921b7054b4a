"""A growing Markdown text as rows: what is final is the document, whatever came when."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment

from radixchat.chat_cli.markdown_stream import MarkdownStream
from radixchat.tests.chat_cli.markdown_texts import cut, document
from radixchat.tests.chat_cli.test_markdown_answer import LONG, Window, streamed

EMOJI_TABLE = "| 動物 | sign | name |\n|---|:---:|---:|\n" + "".join(
    f"| 鯨{number} | 👩‍👩‍👧 🐳 | whale{number} |\n" for number in range(6)
)
THOUGHT = "<think>\nI should add.\n\n1 + 1 is *two*.\n</think>\n\nIt is **two**.\n"


def console(columns: int) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=columns, height=10)


def plain(rows: Iterable[list[Segment]]) -> list[str]:
    return ["".join(segment.text for segment in row) for row in rows]


def final_rows(pieces: Iterable[str], columns: int) -> list[list[Segment]]:
    """All rows, drawing in between as a terminal would."""
    stream = MarkdownStream(console(columns))
    rows: list[list[Segment]] = []
    for piece in pieces:
        stream.feed(piece)
        rows += stream.advance()
        stream.open_rows()
    return rows + stream.finish()


@settings(max_examples=8, deadline=None)
@given(st.integers(min_value=0), st.integers(min_value=20, max_value=120))
def test_final_rows_do_not_depend_on_the_cuts(seed: int, columns: int) -> None:
    """Prose, code, lists, tables and reasoning, well-formed or not, in pieces of any size."""
    rng = random.Random(seed)
    text = document(rng)
    pieces = cut(text, rng, rng.choice((3, 10, 50)))
    assert plain(final_rows(pieces, columns)) == plain(final_rows([text], columns))


@pytest.mark.slow
@pytest.mark.parametrize("columns", [20, 33, 80, 120])
def test_the_scrollback_of_long_answers(columns: int) -> None:
    """What a terminal has scrolled away, and what it shows, are the rows of the document."""
    for seed in range(5):
        rng = random.Random(f"{columns} {seed}")
        text = "".join(document(rng) for _ in range(4))
        window = Window(columns)
        for piece in cut(text, rng, rng.choice((1, 5, 50))):
            window.feed(piece)
        window.close()
        rows = [row.rstrip() for row in plain(final_rows([text], columns))]
        while rows and not rows[-1]:
            rows.pop()
        # Emoji that this terminal does not join are wider than the rows are made for.
        assert window.screen.logical_lines == rows, (columns, seed)


@pytest.mark.parametrize("at", range(30, len(EMOJI_TABLE), 46))
@pytest.mark.parametrize("before", [12, 60])
def test_resize_at_twenty_columns_in_a_table(before: int, at: int) -> None:
    """Made twenty columns wide in the middle of a table: the table is there once, as at twenty."""
    window = Window(before, height=24)
    window.feed("Look:\n\n")
    for start in range(0, at, 5):
        window.feed(EMOJI_TABLE[start : min(start + 5, at)])
    window.screen.resize(20, 24)
    window.console.width = 20
    for start in range(at, len(EMOJI_TABLE), 5):
        window.feed(EMOJI_TABLE[start : start + 5])
    assert window.close() == ["Look:", "", *streamed([EMOJI_TABLE], 20)]


def test_an_unclosed_fence_at_every_cut() -> None:
    """Wherever the text stops, the code so far is between two fences, without blank rows."""
    text = "Code:\n\n```python\ndef f():\n\n    return 1\n```\n"
    for end in range(text.index("def"), len(text)):
        rows = plain(final_rows(text[:end], 40))
        assert rows[:3] == ["Code:", "", "```python"]
        assert rows[-1] == "```"
        assert rows.count("```") == 1
        assert rows[-2].strip()
        code = text[text.index("def") : end].split("\n```")[0]
        lines = [line.rstrip() for line in code.split("\n") if line.strip(" `")]
        assert [row.rstrip() for row in rows[3:-1] if row.strip("`")] == lines


@pytest.mark.parametrize("kind", LONG)
def test_what_is_open_stays_small(kind: str) -> None:
    """Of a list one item is open, of code a line, of a paragraph some rows: work is bounded."""
    opening, unit = LONG[kind]
    stream = MarkdownStream(console(40))
    stream.feed(opening)
    for number in range(120):
        stream.feed(unit.format(number))
        stream.advance()
        assert len(stream.open_rows()) <= 16, number


def test_the_last_tokens_are_shown() -> None:
    """What came too fast to be drawn is there at the end."""
    window = Window(40)
    window.feed("first ")
    for number in range(50):
        window.answer.feed(f"{number} ")
    assert window.close()[-1].endswith("48 49")


def test_carriage_returns_and_tabs() -> None:
    """No carriage return overwrites, and tabs are spaces, in prose and in code."""
    text = "safe\rEVIL\r\n\n```\n\ta\tb\r\n```\n\nc\td\n"
    rows = plain(final_rows(text, 40))
    assert rows == ["safeEVIL", "", "```", "    a   b", "```", "", "c       d"]
    assert streamed(text, 40) == rows


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 100])
def test_reasoning(size: int) -> None:
    """However cut, it is dim and as it was written; the answer is Markdown, after a blank row."""
    pieces = [THOUGHT[at : at + size] for at in range(0, len(THOUGHT), size)]
    rows = final_rows(pieces, 40)
    *thought, blank, answer = rows
    assert plain(thought) == ["<think>", "I should add.", "", "1 + 1 is *two*.", "</think>"]
    for row in thought:
        assert all(segment.style is not None and segment.style.dim for segment in row)
    assert (plain([blank, answer])) == ["", "It is two."]
    assert not any(segment.style is not None and segment.style.dim for segment in answer)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<think>\n\n</think>\n\nHello", ["Hello"]),
        ("\n<think></think>Hello", ["Hello"]),
        ("<think>hm", ["<think>hm"]),
        ("<think>", ["<think>"]),
        ("<thin", ["<thin"]),
        ("", []),
        ("a <think>b</think>", ["a <think>b</think>"]),
        ("<think>a</think>", ["<think>a</think>"]),
    ],
)
def test_what_looks_like_reasoning(text: str, shown: list[str]) -> None:
    """An empty one is not shown, one without an end is, and only the beginning of an answer is."""
    assert plain(final_rows([text], 40)) == shown
    assert plain(final_rows(text, 40)) == shown
