"""A terminal for tests: what the bytes that a program wrote look like, scrollback included.

Owns a grid of rows with automatic wrapping, its switch, and reflow on resize, as the terminals
of today have them. Knows the sequences that the client and prompt_toolkit use; an unknown one is
an error, so that a new one gets tested.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field

from rich.cells import cell_len

_TOKEN = re.compile(
    r"\x1b\[(?P<args>[?>0-9;]*)(?P<final>[A-Za-z])|\x1b\]52;c;(?P<clipboard>[^\x07\x1b]*)\x07|\x1b.|[\s\S]"
)
_UNFINISHED = re.compile(r"\x1b(\[[?>0-9;]*|\][^\x07\x1b]*)?\Z")
_IGNORED = {"m", "h", "l", "n"}


@dataclass
class _Row:
    cells: list[str] = field(default_factory=list)
    wrapped: bool = False  # goes on in the next row

    @property
    def text(self) -> str:
        return "".join(self.cells)


class TerminalScreen:
    """Feed it output; read `lines`: everything from the first scrolled row to the last.

    clipboard: what was written there last (OSC 52).
    """

    def __init__(self, columns: int, rows: int) -> None:
        self.clipboard: str | None = None
        self.columns = columns
        self.height = rows
        self._rows = [_Row()]
        self._top = 0
        self._y = 0  # absolute: 0 is the first row of the scrollback
        self._x = 0
        self._wraps = True
        self._saved = (0, 0)  # column, and row of the window: scrolling does not move it
        self._unfinished = ""  # the beginning of a sequence that the next output ends

    def feed(self, output: str) -> None:
        """Show output; LF also returns to the first column, as the terminal driver does it."""
        output = self._unfinished + output
        unfinished = _UNFINISHED.search(output)
        self._unfinished = unfinished[0] if unfinished else ""
        output = output.removesuffix(self._unfinished)
        for token in _TOKEN.finditer(output):
            if token["final"] is not None:
                self._control(token["args"], token["final"])
            elif token["clipboard"] is not None:
                self.clipboard = base64.b64decode(token["clipboard"]).decode("utf-8")
            elif token[0] == "\n":
                self._line_feed()
                self._x = 0
            elif token[0] == "\r":
                self._x = 0
            elif token[0] == "\b":
                self._x = max(0, self._x - 1)
            elif token[0] == "\t":
                self._x = min(self.columns - 1, self._x // 8 * 8 + 8)
            elif token[0] == "\x07":
                pass
            elif token[0] == "\x1b7":
                self._saved = (self._x, self._y - self._top)
            elif token[0] == "\x1b8":
                self._x, self._y = self._saved[0], self._saved[1] + self._top
            else:
                assert token[0] >= " ", f"a control character reached the terminal: {token[0]!r}"
                self._put(token[0])

    def resize(self, columns: int, rows: int) -> None:
        """Change the size: wrapped rows are joined and wrapped anew, the cursor keeps its place."""
        offset = 0
        texts: list[str] = []
        cursor = (0, 0)
        for number, row in enumerate(self._rows):
            if number == self._y:
                cursor = (len(texts), offset + self._x)
            if offset:
                texts[-1] += row.text
            else:
                texts.append(row.text)
            offset = offset + self.columns if row.wrapped else 0
        self.columns, self.height = columns, rows
        self._rows = []
        for index, text in enumerate(texts):
            first = len(self._rows)
            self._rows += _wrap(text, columns)
            if index == cursor[0]:
                self._y = min(first + cursor[1] // columns, len(self._rows) - 1)
                self._x = min(cursor[1] - (self._y - first) * columns, columns)
        self._top = max(0, len(self._rows) - rows)

    @property
    def lines(self) -> list[str]:
        """All rows, without trailing blanks, without empty rows at the end."""
        texts = [row.text.rstrip() for row in self._rows]
        while texts and not texts[-1]:
            texts.pop()
        return texts

    @property
    def logical_lines(self) -> list[str]:
        """As `lines`, with what the terminal wrapped joined again."""
        return self._joined(self._rows)

    @property
    def lines_to_cursor(self) -> list[str]:
        """As `logical_lines`, as far as the line that the cursor is in."""
        end = self._y
        while self._rows[end].wrapped and end + 1 < len(self._rows):
            end += 1
        return self._joined(self._rows[: end + 1])

    def _joined(self, rows: list[_Row]) -> list[str]:
        texts: list[str] = []
        joins = False
        for row in rows:
            if joins:
                texts[-1] += row.text
            else:
                texts.append(row.text)
            joins = row.wrapped
        texts = [text.rstrip() for text in texts]
        while texts and not texts[-1]:
            texts.pop()
        return texts

    def _put(self, character: str) -> None:
        width = cell_len(character)
        row = self._rows[self._y]
        if width == 0:
            if row.cells:
                row.cells[min(self._x, len(row.cells)) - 1] += character
            return
        if self._x + width > self.columns:
            if self._wraps:
                row.wrapped = True
                self._line_feed()
                self._x = 0
                row = self._rows[self._y]
            else:
                self._x = self.columns - width
        row.cells += [" "] * (self._x - len(row.cells))
        row.cells[self._x : self._x + width] = [character, *[""] * (width - 1)]
        self._x += width

    def _line_feed(self) -> None:
        self._y += 1
        if self._y == len(self._rows):
            self._rows.append(_Row())
        self._top = max(self._top, self._y - self.height + 1)

    def _control(self, args: str, final: str) -> None:
        count = int(args) if args.isdecimal() else 1
        match final:
            case "A":
                self._y = max(self._top, self._y - count)
            case "B":
                self._y = min(self._top + self.height - 1, self._y + count)
                self._rows += [_Row() for _ in range(self._y + 1 - len(self._rows))]
            case "C":
                self._x = min(self.columns - 1, self._x + count)
            case "D":
                self._x = max(0, self._x - count)
            case "J" if args == "2":
                for row in self._rows[self._top :]:
                    row.cells, row.wrapped = [], False
            case "H":
                assert args == "0;0"
                self._x, self._y = 0, self._top
            case "J":
                assert args in ("", "0")
                self._erase_row()
                del self._rows[self._y + 1 :]
            case "K":
                assert args in ("", "0")
                self._erase_row()
            case "h" | "l" if args == "?7":
                self._wraps = final == "h"
            case _:
                assert final in _IGNORED, f"unknown sequence: CSI {args}{final}"

    def _erase_row(self) -> None:
        row = self._rows[self._y]
        del row.cells[self._x :]
        row.wrapped = False


def _wrap(text: str, columns: int) -> list[_Row]:
    rows = [_Row()]
    for character in text:
        width = cell_len(character)
        if len(rows[-1].cells) + width > columns:
            rows[-1].wrapped = True
            rows.append(_Row())
        if width == 0 and rows[-1].cells:
            rows[-1].cells[-1] += character
        else:
            rows[-1].cells += [character, *[""] * (width - 1)]
    return rows
