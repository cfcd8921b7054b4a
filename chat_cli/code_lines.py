"""Lines of code with the colours of their language, as they come: each is styled once.

Owns the lexer and as many earlier lines as it needs to know where it is. Knows no fence and no
console: what is too wide is the caller's to fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from rich.cells import chop_cells
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax

_TAB = 4
_KEPT = 4
_ENOUGH = 12
_FARTHEST = 192
"""Earlier lines: so many stay if they are as good as all, and this many are looked at before."""

_PLAIN = Style()
_THEME = Syntax.get_theme("ansi_dark")


class _Lexer(Protocol):
    """One of Pygments', which has no types."""

    def get_tokens(self, text: str) -> Iterable[tuple[Any, str]]:
        """The text in pieces, each with its kind."""


class CodeLines:
    """The lines of one block, in order.

    A line's colours depend on what stands before it (a string of many lines). To lex that again
    for each line would cost as much as the block is long, so what came before is forgotten once
    its end alone gives the same colours; after 192 lines in any case.
    """

    def __init__(self, language: str) -> None:
        self._lexer: _Lexer | None = Syntax("", language, tab_size=_TAB).lexer
        self._before: list[str] = []
        self._enough = _ENOUGH

    def take(self, lines: Sequence[str]) -> list[list[Segment]]:
        """The next whole lines, styled for good."""
        if self._lexer is None or not lines:
            return [[Segment(line.expandtabs(_TAB))] for line in lines]
        text = [*self._before, *(line.expandtabs(_TAB) for line in lines)]
        styled = _styled(self._lexer, text)
        shown = styled[len(self._before) :]
        self._before = text
        if len(text) >= self._enough:
            is_as_good = _styled(self._lexer, text[-_KEPT:]) == styled[-_KEPT:]
            if is_as_good or len(text) >= _FARTHEST:
                self._before = text[-_KEPT:]
            self._enough = max(_ENOUGH, 2 * len(self._before))
        return shown

    def peek(self, line: str) -> list[Segment]:
        """The line that comes next, as far as it is there."""
        if self._lexer is None:
            return [Segment(line.expandtabs(_TAB))]
        return _styled(self._lexer, [*self._before, line.expandtabs(_TAB)])[-1]


def folded(line: list[Segment], width: int) -> list[list[Segment]]:
    """The line in rows of at most `width` cells, cut at the edge and not between words."""
    text = "".join(segment.text for segment in line)
    pieces = chop_cells(text, width) if len(text) * 2 > width else [text]
    if len(pieces) <= 1:
        return [line]
    rows: list[list[Segment]] = [[]]
    room = len(pieces[0])
    for part, style, _ in line:
        rest = part
        while len(rest) > room and len(rows) < len(pieces):
            rows[-1].append(Segment(rest[:room], style))
            rest = rest[room:]
            room = len(pieces[len(rows)])
            rows.append([])
        rows[-1].append(Segment(rest, style))
        room -= len(rest)
    return rows


def _styled(lexer: _Lexer, lines: Sequence[str]) -> list[list[Segment]]:
    """Each line in segments, neighbours of one style joined."""
    found: list[list[Segment]] = [[]]
    for kind, text in lexer.get_tokens("\n".join(lines)):
        style = _THEME.get_style_for_token(kind)
        first, *others = text.split("\n")
        _append(found[-1], first, style)
        for other in others:
            found.append([])
            _append(found[-1], other, style)
    # A lexer may give fewer or more line ends than it got; what is shown is what was written.
    if ["".join(part.text for part in line) for line in found[: len(lines)]] != list(lines):
        return [[Segment(line)] for line in lines]
    return found[: len(lines)]


def _append(line: list[Segment], text: str, style: Style) -> None:
    if text.isspace():  # has no colour to see, and lexers differ in whose it is
        style = line[-1].style or _PLAIN if line else _PLAIN
    if text and line and line[-1].style == style:
        line[-1] = Segment(line[-1].text + text, style)
    elif text:
        line.append(Segment(text, style))
