"""An answer on a terminal as Markdown while it streams: append-only.

Owns the rows that may still change, and only those: a final row is printed once and scrolls away
untouched, so the scrollback is the document. Knows no response and no Markdown.

    ┌ scrollback ────────────┐
    │ final rows             │  printed once
    ├ live rows ─────────────┤
    │ what is open           │  erased and drawn again; at most a screen, never wraps
    └────────────────────────┘

Cost: what is open is small (`markdown_stream.py`), and a redraw waits until all of them have taken
4 % of the time at most: however fast a model, rendering is less than 5 % of a core. A slow
terminal, for which everything waits while it is written to, is written to a quarter of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style

from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.markdown_stream import MarkdownStream

REDRAW_SECONDS = 0.04
TIME_PER_WORK, IDLE_PER_WRITE = 25, 3
"""Time that has to pass per CPU time of redraws, and after a redraw per time of writing it."""
CREDIT_SECONDS = 2.0
"""How much of the former may be owed: one dear redraw (a language's first lexer) delays none."""

_NARROW = 20
"""Columns of the narrowest window in which a long open block is still erased as a whole."""
# Row by row: what is erased from the top left corner in one go (CSI J), tmux keeps as a copy in the
# scrollback.
_ERASE_ROW, _UP = "\x1b[K", "\x1b[A"
# Without automatic wrapping a row stays one row, even where the terminal finds an emoji wider
# than rich does; a wrapped row would make the next redraw start too low and leave a copy.
_WRAP_OFF, _WRAP_ON = "\x1b[?7l", "\x1b[?7h"
# Zero-width joiner, emoji presentation, tones of skin.
_JOINS = dict.fromkeys((0x200D, 0xFE0F, *range(0x1F3FB, 0x1F400)))
_DIM = Style(dim=True)
_WAITING = [Segment("…", _DIM)]


class MarkdownAnswer:
    """One answer; `feed` the deltas, `tick` from time to time, `close` at the end.

    live: whether the console can move its cursor; if not, rows appear when they are final.
    """

    def __init__(
        self,
        console: Console,
        *,
        live: bool,
        clock: Callable[[], float] = time.perf_counter,
        work: Callable[[], float] = time.thread_time,
    ) -> None:
        """clock: seconds. work: seconds of this thread alone, as others may need its core."""
        self._console = console
        self._live = live
        self._clock = clock
        self._work = work
        self._writing = 0.0  # seconds, in the last write: a terminal can be slow
        self._stream = MarkdownStream(console)
        self._waits = False
        self._remark = ""
        self._row_widths: list[int] = []
        self._next_redraw = clock()
        self._paid_until = self._next_redraw - CREDIT_SECONDS
        self._closed = False
        if live:
            self._write(self._draw([_WAITING]))

    def feed(self, delta: str) -> None:
        """More text; drawn now or at a later tick."""
        self._remark = ""
        self._stream.feed(delta)
        self._waits = True
        self.tick()

    def remark(self, text: str) -> bool:
        """Show a line below the answer until more of it comes; False: nothing can be taken back."""
        remark = neutral_line(text)
        if self._live and not self._closed and remark != self._remark:
            self._remark = remark
            self._refresh()
        return self._live and not self._closed

    def tick(self) -> None:
        """Draw what is not drawn yet, if enough time has passed."""
        started = self._clock()
        if self._waits and started >= self._next_redraw:
            work = self._work()
            self._refresh()
            now = self._clock()
            self._paid_until = max(self._paid_until, now - CREDIT_SECONDS)
            self._paid_until += TIME_PER_WORK * (self._work() - work)
            self._next_redraw = max(
                started + REDRAW_SECONDS, now + IDLE_PER_WRITE * self._writing, self._paid_until
            )

    def close(self) -> None:
        """The text is complete: everything becomes permanent. Closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._write(self._erase() + self._lines(self._stream.finish()))

    def _refresh(self) -> None:
        self._waits = False
        final = self._lines(self._stream.advance())
        if self._live:
            rows = self._stream.open_rows()
            if not rows and not self._stream.has_final:
                rows = [_WAITING]
            if self._remark:
                cut = set_cell_size(self._remark, min(cell_len(self._remark), self._console.width))
                rows = [*rows, [Segment(cut, _DIM)]]
            final = self._erase() + final + self._draw(rows)
        self._write(final)

    def _lines(self, rows: list[list[Segment]]) -> str:
        return self._text(rows) + "\n" if rows else ""

    def _draw(self, rows: list[list[Segment]]) -> str:
        visible = self._visible([_of_sure_width(row) for row in rows])
        self._row_widths = [min(_width(row), self._console.width) for row in visible]
        return _WRAP_OFF + self._text(visible) + _WRAP_ON

    def _visible(self, rows: list[list[Segment]]) -> list[list[Segment]]:
        """The last rows: of a full screen the first one would scroll away, out of reach.

        So would rows that a narrower window wraps: half the screen is drawn if the rows are wide,
        and more if they stay on the screen at twenty columns.
        """
        room = max(1, self._console.height - 1)
        least = max(1, self._console.height // 2)
        for number, row in enumerate(reversed(rows)):
            room -= max(1, -(-_width(row) // _NARROW))
            if room < 0 and number >= least:
                return rows[-number:]
        return rows[-max(1, self._console.height - 1) :]

    def _erase(self) -> str:
        """Move to the first live row and erase from there on.

        A window that became narrower has wrapped the rows that no longer fit. (Rows that it has
        pushed past the top of the screen are out of reach, and stay as a copy.)
        """
        if not self._row_widths:
            return ""
        width = max(1, self._console.width)
        rows = sum(max(1, -(-row_width // width)) for row_width in self._row_widths)
        self._row_widths = []
        return f"\r{_ERASE_ROW}{(_UP + _ERASE_ROW) * (rows - 1)}"

    def _text(self, rows: list[list[Segment]]) -> str:
        segments: list[Segment] = []
        for row in rows:
            segments += [*row, Segment.line()]
        with self._console.capture() as capture:
            self._console.print(Segments(segments[:-1]), end="", soft_wrap=True)
        return capture.get()

    def _write(self, text: str) -> None:
        self._writing = 0.0
        if text:
            started = self._clock()
            self._console.file.write(text)
            self._console.file.flush()
            self._writing = self._clock() - started


def _of_sure_width(row: list[Segment]) -> list[Segment]:
    """The row without what joins emoji into one, which some terminals show as one and some do not.

    Where they differ, a resize would wrap a live row into more or fewer rows than are erased.
    """
    return [Segment(text.translate(_JOINS), style) for text, style, _ in row]


def _width(row: list[Segment]) -> int:
    return sum(cell_len(text) for text, _, _ in row)
