"""A fence of code that is still open: whole lines are shown once, and for good.

Owns what of it is not shown yet. Knows no Markdown but what ends a fence.

    ```python      header ┐
    x = 1                 │ permanent
    y = 2                 ┘
    z =            the line that comes ┐ live
    ```            footer              ┘
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.segment import Segment

from radixchat.chat_cli.code_lines import CodeLines, folded

_LONGEST_PEEK = 4000
"""Characters of an unfinished line that are drawn; the rest is above the screen."""


class OpenFence:
    """Takes the lines after the one that opened it. Blank lines wait: at the end they are none."""

    def __init__(self, markup: str, language: str, footer: list[list[Segment]]) -> None:
        """markup: the fence's first characters. footer: the rows that end it."""
        self._marker = markup[0]
        self._ends = re.compile(rf" {{0,3}}{re.escape(markup[0])}{{{len(markup)},}}[ \t]*")
        self._code = CodeLines(language)
        self.footer = footer
        self._blank = 0

    def ends_at(self, lines: Sequence[str]) -> int | None:
        """The index of the line that closes it; None: none does."""
        return next((i for i, line in enumerate(lines) if self._ends.fullmatch(line)), None)

    def take(self, lines: Sequence[str], width: int) -> list[list[Segment]]:
        """The rows of the next whole lines."""
        waiting = [""] * self._blank + [line if line.strip() else "" for line in lines]
        self._blank = 0
        while waiting and not waiting[-1]:
            waiting.pop()
            self._blank += 1
        return [row for line in self._code.take(waiting) for row in folded(line, width)]

    def peek(self, line: str, width: int) -> list[list[Segment]]:
        """The rows that may still change: the line that comes, and the fence's end."""
        if not line.strip(f" {self._marker}"):  # nothing, or the beginning of the fence's end
            return self.footer
        blank: list[list[Segment]] = [[] for _ in range(self._blank)]
        # So that a line without end costs no more than a long one, and its rows stay in place.
        start = (len(line) // _LONGEST_PEEK - 1) * _LONGEST_PEEK if len(line) > _LONGEST_PEEK else 0
        return [*blank, *folded(self._code.peek(line[start:]), width), *self.footer]

    def finish(self, line: str, width: int) -> list[list[Segment]]:
        """The last rows; `line`: what came after the last line end."""
        rows = [] if self._ends.fullmatch(line) else self.take([line], width)
        return [*rows, *self.footer]
