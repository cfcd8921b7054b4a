"""The input line in a window that has become narrower.

Owns where its first row is then. prompt_toolkit goes up as many rows as it drew; a terminal has
wrapped those by now into more, and a copy of the line would stay above it at every step. Knows no
text.
"""

from __future__ import annotations

from collections.abc import Mapping

from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.renderer import Renderer


class ReflowingRenderer(Renderer):
    """Counts on a terminal that wraps what no longer fits, as all but xterm and its like do."""

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Erase from the first row on, wherever it is now."""
        screen, size = self._last_screen, self._last_size
        now = self.output.get_size()
        if screen is not None and size is not None:
            rows = [
                _rows(screen.data_buffer[row], now.columns, size.columns)
                for row in range(min(screen.height, size.rows))
            ]
            x, y = self._cursor_pos
            within = max(row for row, start in enumerate(rows[y]) if start <= x)
            self.output.cursor_backward(x - rows[y][within])
            self.output.cursor_up(sum(map(len, rows[:y])) + within)
            self._erase_rows(min(sum(map(len, rows)), now.rows))
            self._cursor_pos = Point(0, 0)
        super().erase(leave_alternate_screen)

    def _erase_rows(self, count: int) -> None:
        """Row by row: tmux keeps what "erase below" takes from the top row of its screen."""
        for _ in range(count - 1):
            self.output.erase_end_of_line()
            self.output.cursor_down(1)
        self.output.erase_end_of_line()
        self.output.cursor_up(count - 1)


def _rows(row: Mapping[int, Char], columns: int, old_columns: int) -> list[int]:
    """Where the rows begin that a drawn row has become, in cells of the drawn one."""
    end = max((at + char.width for at, char in row.items() if char.char != " "), default=0)
    starts = [0]
    at = 0
    while columns < old_columns and at < min(end, old_columns):
        width = max(1, row[at].width) if at in row else 1
        if at + width - starts[-1] > columns:
            starts.append(at)
        at += width
    return starts
