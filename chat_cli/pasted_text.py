"""Huge texts in the input line: each stands there as one character, which is drawn as a label.

Owns which character stands for which text. One character moves, is deleted and is undone as one,
and the line stays short: a key after a megabyte costs what any key costs. Knows no terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MOST_CHARACTERS, MOST_LINES = 2_000, 20
"""A paste that has more of one stands as its label."""
MOST_DRAWN = 20_000
"""Characters of a text that was not pasted here, and is shown in the line; each key draws it."""

# Half a surrogate pair is no character: no terminal can send one, no file in UTF-8 can have one.
# (Of the other half, U+DC80 to U+DCFF stand for bytes that are not UTF-8.)
_FIRST, _LAST = 0xD800, 0xDBFF
_STAND_IN = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")
_KEPT_FOR_PASTES = 512


@dataclass(frozen=True, slots=True)
class Part:
    """Of a line. is_pasted: it stands there as one character."""

    text: str
    is_pasted: bool = False


class PastedTexts:
    """The texts of one run; when no character is left, a text stands for itself."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def paste(self, text: str) -> str:
        """What is put into the line for a text that is pasted: itself, or its character."""
        return self._stand_in(text, 0) if is_huge(text) else text

    def draft(self, text: str) -> str:
        """The line that means `text`: what was pasted before stands as its label again."""
        pasted = [known for known in self._texts if len(known) <= len(text)]
        for known in sorted(pasted, key=len, reverse=True):
            if known in text:
                text = text.replace(known, self._stand_in(known, 0))
        return text if len(text) <= MOST_DRAWN else self._stand_in(self.text(text), 0)

    def text(self, line: str) -> str:
        """What a line means."""
        return "".join(part.text for part in self.parts(line))

    def parts(self, line: str) -> list[Part]:
        """A line's texts in their order; none is empty."""
        parts: list[Part] = []
        end = 0
        for found in _STAND_IN.finditer(line):
            number = ord(found[0]) - _FIRST
            if number < len(self._texts):
                parts += [Part(line[end : found.start()]), Part(self._texts[number], True)]
                end = found.end()
        return [part for part in [*parts, Part(line[end:])] if part.text]

    def line(self, parts: Iterable[Part]) -> str:
        """The line that has these parts, which come from an earlier run."""
        return "".join(map(self._earlier, parts))

    def label(self, character: str) -> str | None:
        """What is drawn for a character that stands for a text; None: it is itself."""
        number = ord(character) - _FIRST
        return label_of(self._texts[number]) if 0 <= number < len(self._texts) else None

    def _earlier(self, part: Part) -> str:
        text = _STAND_IN.sub("\ufffd", part.text)
        is_long = part.is_pasted or len(text) > MOST_DRAWN
        return self._stand_in(text, _KEPT_FOR_PASTES) if is_long else text

    def _stand_in(self, text: str, spare: int) -> str:
        """spare: how many characters must be left for others."""
        number = self._numbers.get(text)
        if number is None:
            number = len(self._texts)
            if number > _LAST - _FIRST - spare:
                return text
            self._texts.append(text)
            self._numbers[text] = number
        return chr(_FIRST + number)


def is_huge(text: str) -> bool:
    """Whether a pasted text is one that only its label is drawn of."""
    return len(text) > MOST_CHARACTERS or _lines(text) > MOST_LINES


def label_of(text: str) -> str:
    """How big it is, by what makes it so."""
    lines = _lines(text)
    if lines > MOST_LINES:
        return f"[pasted {lines:,} lines]"
    return f"[pasted {len(text):,} characters]"


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))
