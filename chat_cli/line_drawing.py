"""What of an input line is drawn otherwise than it is: huge texts as labels, emoji in their width.

Owns which characters those are. prompt_toolkit counts the cells of each code point, terminals those
of what is drawn as one: 👩‍👩‍👧 has six or two, ⚠️ one or two, and after it the cursor would be
elsewhere than it seems. What they disagree about is drawn as what they agree about: its first
character (👩, ⚠), a flag as its two letters. What is sent is what was typed.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Mapping

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.utils import get_cwidth
from wcwidth import grapheme_boundary_before, iter_graphemes, wcswidth, wcwidth

from radixchat.chat_cli.pasted_text import PastedTexts

_LABEL = " ansiyellow"
_FIRST_LETTER, _LAST_LETTER = 0x1F1E6, 0x1F1FF  # regional indicators: A to Z
_LONGEST = 64
_SHOWN: Mapping[str, str] = Char.display_mappings  # a control character: `^A`


class LineDrawing(Processor):
    """Draws a line of the input; the cursor is before or after what is drawn as one, not in it.

    indent: cells that stand before each row.
    """

    def __init__(self, texts: PastedTexts, indent: Callable[[], int]) -> None:
        self._texts = texts
        self._indent = indent

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """One line of the input, drawn."""
        fragments = explode_text_fragments(transformation_input.fragments)
        line = "".join(fragment[1] for fragment in fragments)
        if line.isascii() and line.isprintable():
            return Transformation(transformation_input.fragments)
        pieces = self._drawn(line)
        texts = _filled([text for text, _ in pieces], transformation_input.width - self._indent())
        starts = [0, *itertools.accumulate(map(len, texts))]  # where a character is drawn
        drawn: StyleAndTextTuples = [
            (style + _LABEL if is_label else style, text)
            for (style, *_), text, (_, is_label) in zip(fragments, texts, pieces, strict=True)
        ]
        last = len(line)
        # Behind the last character are spaces for the cursor.
        return Transformation(
            drawn,
            source_to_display=lambda at: starts[at] if at <= last else starts[last] + at - last,
            display_to_source=lambda at: (
                bisect_right(starts, at) - 1 if at < starts[last] else last + at - starts[last]
            ),
        )

    def _drawn(self, line: str) -> list[tuple[str, bool]]:
        """What is drawn for each character, and whether it is a label; nothing for the rest of one
        that several make.
        """
        drawn: list[tuple[str, bool]] = []
        for cluster in iter_graphemes(line):
            label = self._texts.label(cluster[0])
            if label is not None:
                drawn += [(label, True), *((character, False) for character in cluster[1:])]
            elif len(cluster) == 1 or _is_counted_right(cluster):
                drawn += [(_SHOWN.get(character, character), False) for character in cluster]
            else:
                drawn += [(_simplest(cluster), False), *[("", False)] * (len(cluster) - 1)]
        return drawn


def _filled(texts: list[str], columns: int) -> list[str]:
    """The texts, with spaces where a wide character has not enough of its row left.

    prompt_toolkit takes it to the next row, but counts rows by dividing the cells by the columns:
    the last row had no place then, and the cursor was lost.
    """
    filled = list(texts)
    used = 0
    for index, text in enumerate(texts):
        for character in text:
            width = get_cwidth(character)
            if used + width > columns:
                if index and used < columns:
                    filled[index - 1] += " " * (columns - used)
                used = 0
            used += width
    return filled


def length_before(text: str, at: int) -> int:
    """Characters of what is drawn as one and ends there."""
    return at - grapheme_boundary_before(text, at) if at else 0


def length_after(text: str, at: int) -> int:
    """Characters of what is drawn as one and begins there."""
    return len(next(iter_graphemes(text[at : at + _LONGEST]), ""))


def _is_counted_right(cluster: str) -> bool:
    return sum(max(0, wcwidth(character)) for character in cluster) == wcswidth(cluster)


def _simplest(cluster: str) -> str:
    codes = [ord(character) for character in cluster]
    if all(_FIRST_LETTER <= code <= _LAST_LETTER for code in codes):
        return "".join(chr(ord("A") + code - _FIRST_LETTER) for code in codes)
    return cluster[0]
