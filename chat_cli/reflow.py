"""The input line in a window whose size changes.

Owns where its first row is then. prompt_toolkit goes up as many rows as it drew; a terminal has
wrapped those by now into more, and a copy of the line would stay above it at every step. Never goes
up further than to that row: above it stands what cannot be drawn again. Knows no text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout.layout import Layout
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output import Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle

_SAVE_CURSOR, _RESTORE_CURSOR = "\x1b7", "\x1b8"


class HoldingOutput(Vt100_Output):
    """Can write as one what is flushed in parts: a window that changes has less to come between."""

    _is_held = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Write it when the block ends; not to be nested."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            self.flush()

    def flush(self) -> None:
        """Write what there is, unless it is held."""
        if not self._is_held:
            super().flush()


class ReflowingRenderer(Renderer):
    """Counts on a terminal that wraps what no longer fits, as all but xterm and its like do.

    In a window that has become narrower the last row, if it is below the cursor's, stays as long as
    it was, in spaces that the terminal wraps and joins again:

        80 columns   > ▁                       20 columns   > ▁
                     what stands below …                    what stands below ↩
                                                            (spaces)          ↩
                                                            (spaces)

    Else tmux would keep the rows that wrapping makes as empty ones when the window is wide again,
    some more at every change, until the line is at the top of the window and wrapped away from it.
    """

    def __init__(self, style: BaseStyle, output: Output) -> None:
        super().__init__(style, output)
        self._longest = 0  # cells that the last row had since the line began
        self._has_tail = False

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        """Draw what has changed; all of it in another window, and at the end."""
        output = self.output
        with output.held() if isinstance(output, HoldingOutput) else contextlib.nullcontext():
            self._render(app, layout, is_done)

    def _render(self, app: Application[Any], layout: Layout, is_done: bool) -> None:
        if self._last_screen is not None:
            if is_done or self._last_size != self.output.get_size():
                self.erase(leave_alternate_screen=False)
            elif self._has_tail:
                self._cut_tail(self._last_screen.height)
        super().render(app, layout, is_done)
        if is_done:
            self._longest = 0
        else:
            self._add_tail()

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Erase from the first row on, wherever it is now."""
        screen, size = self._last_screen, self._last_size
        if screen is not None and size is not None:
            columns = self.output.get_size().columns
            x, y = self._cursor_pos
            above = [len(_rows(screen.data_buffer[row], columns, size.columns)) for row in range(y)]
            starts = _rows(screen.data_buffer[y], columns, size.columns)
            within = max(row for row, start in enumerate(starts) if start <= x)
            self.output.write_raw("\r")
            self.output.cursor_up(sum(above) + within)
            self._cursor_pos = Point(0, 0)
            # tmux keeps what "erase below" takes from the top left corner of its screen. Not row by
            # row: the last ones may be gone, and the cursor would not get as far down as up.
            self.output.erase_end_of_line()
            self.output.cursor_forward(1)
            self.output.erase_down()
            self.output.cursor_backward(1)
        self._has_tail = False
        super().erase(leave_alternate_screen)

    def _add_tail(self) -> None:
        screen, size = self._last_screen, self._last_size
        assert screen is not None
        assert size is not None
        down = screen.height - 1 - self._cursor_pos.y
        cells = _cells(screen.data_buffer[screen.height - 1])
        if down <= 0 or cells >= size.columns:
            return
        self._longest = max(self._longest, cells)
        rows = (self._longest - 1) // size.columns
        if rows <= 0 or screen.height + rows > size.rows:
            return
        # Line feeds make the rows where there are none; the way back up is as long everywhere.
        self.output.write_raw("\r" + "\n" * (down + rows))
        self.output.cursor_up(down + rows)
        self.output.cursor_forward(self._cursor_pos.x)
        # Where these spaces end, a window decides that may have changed already.
        self.output.write_raw(f"{_SAVE_CURSOR}\r")
        self.output.cursor_down(down)
        self.output.cursor_forward(cells)
        self.output.write_raw(" " * (self._longest - cells) + _RESTORE_CURSOR)
        self.output.flush()
        self._has_tail = True

    def _cut_tail(self, height: int) -> None:
        """Else the last row would go on in the next one when it is another row's place."""
        assert self._last_screen is not None
        self.output.write_raw(f"{_SAVE_CURSOR}\r")
        self.output.cursor_down(height - 1 - self._cursor_pos.y)
        self.output.cursor_forward(_cells(self._last_screen.data_buffer[height - 1]))
        self.output.erase_down()
        self.output.write_raw(_RESTORE_CURSOR)
        self._has_tail = False


def _cells(row: Mapping[int, Char]) -> int:
    """As far as something is drawn."""
    return max((at + char.width for at, char in row.items() if char.char != " "), default=0)


def _rows(row: Mapping[int, Char], columns: int, old_columns: int) -> list[int]:
    """Where the rows begin that a drawn row has become, in cells of the drawn one."""
    end = _cells(row)
    starts = [0]
    at = 0
    while columns < old_columns and at < min(end, old_columns):
        width = max(1, row[at].width) if at in row else 1
        if at + width - starts[-1] > columns:
            starts.append(at)
        at += width
    return starts
