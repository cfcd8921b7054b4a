"""Which rows of a paragraph that is still growing are final, and where its text goes on.

Owns when to look. A paragraph can be a whole answer: to draw it from its start at every redraw
would cost as much as it is long. A row is final when words that are added cannot change it: none
can move up, as rows are filled greedily, and no emphasis, code or link that is still open begins
in it. Knows no stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rich.segment import Segment

from radixchat.chat_cli.markdown_blocks import (
    IN_PARAGRAPH,
    LONGEST_TABLE_HEADER,
    Block,
    MarkdownRenderer,
    Seam,
)

_ENOUGH = 10
_KEPT = (4, 6, 9, 13)
"""Rows: when it is worth looking, and how many are tried to be kept back."""
_VERIFIED = 3
_WORD = re.compile(r"\S+")
# What can begin something that ends later: `*` and `~~` before a letter, `_` before a word, a
# backtick. Of brackets it is enough that all are closed: what is in them is at an end.
_OPENS = re.compile(r"[*](?!\s)|~~(?!\s)|(?<!\w)_(?!\s)|`")


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows that are final, and where in the source the rest begins."""

    rows: list[list[Segment]]
    offset: int


class ParagraphFlow:
    """Looks at one paragraph after the other; `restart` before each."""

    def __init__(self, renderer: MarkdownRenderer) -> None:
        self._renderer = renderer
        self._enough = _ENOUGH

    def restart(self) -> None:
        """Another paragraph begins."""
        self._enough = _ENOUGH

    def cut(self, source: str, seam: Seam, rows: list[list[Segment]]) -> Cut | None:
        """Where the paragraph can be cut; None: not yet. rows: those of `source`."""
        if len(rows) < self._enough:
            return None
        for kept in _KEPT:
            offset = self._offset(source, seam, rows, len(rows) - kept)
            if offset is not None:
                self._enough = _ENOUGH
                return Cut(rows[:-kept], offset)
        self._enough = 2 * len(rows)  # so that looking in vain costs no more than drawing
        return None

    def _offset(
        self, source: str, seam: Seam, rows: list[list[Segment]], num_final: int
    ) -> int | None:
        """Where in the source the row `num_final` begins, if that is a place to cut."""
        above = sum(len(_plain(row).split()) for row in rows[:num_final])
        first = _plain(rows[num_final]).split()
        if not first:
            return None
        words = list(_WORD.finditer(source))
        # A link is shown with its address and so as more words than are written.
        order = sorted(range(max(0, above - 20), min(len(words), above + 4)), key=_from(above))
        alike = [i for i in order if _core(first[0]) in words[i][0] and words[i].start()]
        for i in alike[:_VERIFIED]:
            offset = words[i].start()
            if self._is_final(source, seam, offset) and (
                self._rows(source[:offset], seam) == rows[:num_final]
                and self._rows(source[offset:], IN_PARAGRAPH) == rows[num_final:]
            ):
                return offset
        return None

    def _is_final(self, source: str, seam: Seam, offset: int) -> bool:
        before = source[:offset].rstrip()
        line = source[source.rfind("\n", 0, offset) + 1 :]
        # The last line may still become a table's header, or begin another block.
        is_text = line.count("\n") > 1 or len(line) > LONGEST_TABLE_HEADER
        if not is_text or before.endswith("\\"):
            return False
        blocks = self._renderer.blocks(before, seam)
        return len(blocks) == 1 and not _has_open_ends(blocks[0])

    def _rows(self, source: str, seam: Seam) -> list[list[Segment]]:
        return self._renderer.rows(self._renderer.blocks(source, seam), follows=False)


def _has_open_ends(block: Block) -> bool:
    """Whether something in the paragraph can be ended by what follows."""
    text = ""
    for token in block.tokens:
        for child in token.children or ():
            if child.type == "text":
                text += child.content
            elif child.type == "code_inline":
                text += "x"
            elif child.type == "hardbreak":
                text += "\n"
    return bool(_OPENS.search(text + " ")) or text.count("[") != text.count("]")


def _plain(row: list[Segment]) -> str:
    return "".join(segment.text for segment in row)


def _core(word: str) -> str:
    """The part of a shown word that stands in its source too."""
    found = re.search(r"\w+", word)
    return found[0] if found else word


def _from(middle: int) -> Callable[[int], int]:
    return lambda i: abs(i - middle)
