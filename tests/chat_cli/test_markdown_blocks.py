"""Markdown blocks: the dialect, and how a block looks."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment

from radixchat.chat_cli.control_characters import neutralise
from radixchat.chat_cli.markdown_blocks import MarkdownRenderer


def renderer(width: int = 40) -> MarkdownRenderer:
    return MarkdownRenderer(Console(file=io.StringIO(), force_terminal=True, width=width))


def rendered(text: str, width: int = 40) -> str:
    """The document's text."""
    markdown = renderer(width)
    rows = markdown.rows(markdown.blocks(text), follows=False)
    return "\n".join("".join(segment.text for segment in row) for row in rows)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\ntwo\n", "one\ntwo"),
        ("**b** *i* `c` ~~s~~", "b i c s"),
        ("# Head\n\npara", f"{'Head':^40}".rstrip() + "\n\npara"),
        ("- a\n- b\n\n1. x\n2. y", " • a\n • b\n\n 1 x\n 2 y"),
        ("> quoted\n> more", "▌ quoted\n▌ more"),
        ("a\n\n---\n\nb", "a\n\n" + "-" * 40 + "\n\nb"),
        ("```python\nx = 1\n\ny = 2\n```", "```python\nx = 1\n\ny = 2\n```"),
        ("```\nplain\n```", "```\nplain\n```"),
        ("    indented\n", "```\nindented\n```"),
        ("```py\nunclosed", "```py\nunclosed\n```"),
        ("| a | b |\n|---|---|\n| 😀 | 漢字 |", " a   b\n ────────\n 😀  漢字"),
        ("[text](http://x.y)", "text (http://x.y)"),
        ("![alt](http://x.y/i.png)", "!alt (http://x.y/i.png)"),
        ("<b>shown</b> <script>", "<b>shown</b> <script>"),
        ("[a]: http://x.y\n\n[a]", "[a]: http://x.y\n\n[a]"),
    ],
)
def test_look(text: str, expected: str) -> None:
    """Each construct as text; nothing that the model wrote is dropped."""
    assert rendered(text) == expected


def test_twenty_columns() -> None:
    """Prose is wrapped between words, code and wide characters at the edge; nothing is lost."""
    text = "some words that wrap\n\n```\n" + "x" * 30 + "\n```\n\n" + "漢" * 15
    lines = rendered(text, 20).split("\n")
    assert max(map(len, lines)) <= 20
    assert "".join(lines).count("x") == 30
    assert "".join(lines).count("漢") == 15
    assert "漢" * 10 in lines


def test_code_is_highlighted_and_not_padded() -> None:
    """A known language has colours; no background is drawn to the edge."""
    markdown = renderer()
    (block,) = markdown.blocks("```python\ndef f(): pass\n```\n")
    _, line, _ = markdown.lines(block)
    assert "".join(segment.text for segment in line) == "def f(): pass"
    assert len({segment.style for segment in line}) > 1


def test_first_lines() -> None:
    """A block knows the line of the text where it starts."""
    blocks = renderer().blocks("a\n\n- b\n- c\n\n```\nd\n```\ne\n")
    assert [block.first_line for block in blocks] == [0, 2, 3, 5, 8]


@pytest.mark.parametrize("text", ["a&#13;b", "a&#27;[2Jb", "&#155;", "[x](http://a\x1b[2J)"])
def test_entities_cannot_bring_control_characters(text: str) -> None:
    """What an entity or an address decodes to is neutralised too."""
    assert neutralise(rendered(neutralise(text))) == rendered(neutralise(text))


@given(st.text(alphabet="ab \n\t*_`~#>-+1.|[]()<>!\\&;:=😀漢\u0301", max_size=200))
def test_any_text_renders(text: str) -> None:
    """No text makes the renderer fail, nor a line longer than the console."""
    markdown = renderer(10)
    for block in markdown.blocks(text):
        for line in markdown.lines(block):
            assert Segment.get_line_length(line) <= 10


@given(st.lists(st.sampled_from(["a", "b", " ", "\n", "> ", "- ", "1. ", "# "])).map("".join))
def test_no_word_is_lost(text: str) -> None:
    """However deeply quoted and listed, every letter is shown."""
    shown = rendered(text, 10)
    assert [shown.count(letter) for letter in "ab"] == [text.count(letter) for letter in "ab"]


@pytest.mark.parametrize("prefix", ["> ", "- ", "1. ", "*", "[", "`", "> - "])
def test_deep_nesting_renders(prefix: str) -> None:
    """Nesting deeper than the console is wide is shown as it was written."""
    assert "deep" in rendered(prefix * 300 + "deep", 20)
