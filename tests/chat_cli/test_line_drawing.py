"""How a line of the input is drawn, and where its cursor is."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import Transformation, TransformationInput
from prompt_toolkit.utils import get_cwidth

from radixchat.chat_cli.line_drawing import LineDrawing, length_after, length_before
from radixchat.chat_cli.pasted_text import PastedTexts

FAMILY, THUMB, WARNING, FLAG, ACCENT = "👩‍👩‍👧", "👍🏽", "⚠️", "🇩🇪", "e\u0301"


def draw(line: str, *, columns: int = 80, indent: int = 2) -> Transformation:
    drawing = LineDrawing(PASTED, lambda: indent)
    return drawing.apply_transformation(
        TransformationInput(
            BufferControl(Buffer()),
            Document(line),
            0,
            lambda at: at,
            [("", line)],
            columns,
            24,
        )
    )


PASTED = PastedTexts()
LABEL = PASTED.paste("line\n" * 30)


@pytest.mark.parametrize(
    ("line", "drawn"),
    [
        ("plain", "plain"),
        ("Größe 漢字", "Größe 漢字"),
        (f"a{LABEL}b", "a[pasted 30 lines]b"),
        (FAMILY, "👩"),
        (THUMB, "👍"),
        (WARNING, "⚠"),
        (FLAG, "DE"),
        (ACCENT, ACCENT),
        ("a\x1b[2Jb", "a^[[2Jb"),
    ],
)
def test_what_is_drawn(line: str, drawn: str) -> None:
    """Labels, the character that is as wide everywhere, pictures of control characters."""
    text = "".join(fragment[1] for fragment in draw(line).fragments)
    assert text == drawn


def test_positions() -> None:
    """The cursor is where the character is drawn; nowhere within a label or an emoji."""
    drawn = draw(f"a{LABEL}{FAMILY}b")
    label = len("[pasted 30 lines]")
    starts = [drawn.source_to_display(at) for at in (0, 1, 2, 7, 8, 9)]
    assert starts == [0, 1, 1 + label, 2 + label, 3 + label, 4 + label]
    assert [drawn.display_to_source(at) for at in starts] == [0, 1, 2, 7, 8, 9]
    assert drawn.display_to_source(5) == 1


@given(st.text("ab漢字🎉\x01" + FAMILY + LABEL, max_size=60), st.integers(8, 30), st.integers(0, 5))
def test_rows_are_full(line: str, columns: int, indent: int) -> None:
    """As many rows as the cells divided by the columns, which is how prompt_toolkit counts them."""
    text = "".join(fragment[1] for fragment in draw(line, columns=columns, indent=indent).fragments)
    rows, used = 1, 0
    for character in text:
        if used + get_cwidth(character) > columns - indent:
            rows, used = rows + 1, 0
        used += get_cwidth(character)
    assert rows == max(1, -(-get_cwidth(text) // (columns - indent)))


@given(st.text("ab漢🎉" + FAMILY + ACCENT + FLAG + THUMB, max_size=30))
def test_steps(text: str) -> None:
    """Steps forwards and backwards meet the same places, and reach both ends."""
    forwards = list(itertools.accumulate(_steps(text), initial=0))
    at, backwards = len(text), [len(text)]
    while at:
        at -= length_before(text, at)
        backwards.append(at)
    assert forwards == backwards[::-1]
    assert length_before(text, 0) == length_after(text, len(text)) == 0


def _steps(text: str) -> list[int]:
    steps: list[int] = []
    while length := length_after(text, sum(steps)):
        steps.append(length)
    return steps
