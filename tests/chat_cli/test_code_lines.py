"""Code as it comes, line by line: its colours, and its rows where it is too wide."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment

from radixchat.chat_cli.code_lines import CodeLines, folded

PYTHON = [
    "def depth(metres: int) -> str:",
    '    """How deep.',
    *(f"    line {number} of the docstring, if not for in" for number in range(40)),
    '    """',
    *(f"    x{number} = {number} + len('a')" for number in range(40)),
]


def text_of(line: list[Segment]) -> str:
    return "".join(segment.text for segment in line)


@pytest.mark.parametrize("size", [1, 3, 10])
def test_colours_do_not_depend_on_the_cuts(size: int) -> None:
    """Also in a string of many lines a line has the colours that it has in the whole."""
    code = CodeLines("python")
    shown = []
    for start in range(0, len(PYTHON), size):
        shown += code.take(PYTHON[start : start + size])
    assert shown == CodeLines("python").take(PYTHON)
    assert len({segment.style for segment in shown[0]}) > 1


def test_the_next_line_has_its_colours_before_it_ends() -> None:
    """Looked at, it is as it would be if it ended there, and nothing is taken."""
    code = CodeLines("python")
    code.take(PYTHON[:5])
    seen = code.peek("    if x")
    assert code.peek("    if x") == seen
    assert code.take(["    if x"]) == [seen]


@pytest.mark.parametrize("language", ["text", "nolang", "", "html", "json", "diff", "console"])
@settings(max_examples=15)
@given(lines=st.lists(st.text(alphabet="ab \t'\"<>{}/*#-+$\ufeff漢😀", max_size=20), max_size=40))
def test_no_character_is_lost(language: str, lines: list[str]) -> None:
    """Whatever the language, the text is what was written, tabs as spaces."""
    shown = CodeLines(language).take(lines)
    assert [text_of(line) for line in shown] == [line.expandtabs(4) for line in lines]


@given(
    st.lists(st.text(alphabet="ab 漢😀\u0301", min_size=1, max_size=12), max_size=6),
    st.integers(min_value=2, max_value=9),
)
def test_folded(parts: list[str], width: int) -> None:
    """Rows fit, and joined they are the line."""
    line = [Segment(part) for part in parts]
    rows = folded(line, width)
    assert "".join(map(text_of, rows)) == text_of(line)
    assert all(cell_len(text_of(row)) <= width for row in rows)
