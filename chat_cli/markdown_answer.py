"""An answer on a terminal as Markdown while it streams: append-only, block by block.

Owns the rows of the open block, and only those: a finished block is printed once and scrolls away
untouched, so the scrollback is the document. Knows no response and no status line.

    ┌ scrollback ────────────┐
    │ finished blocks        │  printed once, may wrap
    ├ live rows ─────────────┤
    │ the open block's tail  │  erased and drawn again; at most a screen, never wraps
    └────────────────────────┘

Cost: a redraw costs as much as the open block is long, so the next one waits until it has taken
a twentieth of the time at most. However long a block or fast a model, rendering is 5 % of a core.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style

from radixchat.chat_cli.control_characters import neutralise
from radixchat.chat_cli.markdown_blocks import Block, MarkdownRenderer

REDRAW_SECONDS = 0.04
IDLE_PER_WORK = 19
"""Time to wait after a redraw, per time that it took."""

_ERASE_BELOW = "\x1b[J"
# Without automatic wrapping a row stays one row, even where the terminal finds an emoji wider
# than rich does; a wrapped row would make the next redraw start too low and leave a copy.
_WRAP_OFF, _WRAP_ON = "\x1b[?7l", "\x1b[?7h"
_WAITING = [Segment("…", Style(dim=True))]


class MarkdownAnswer:
    """One answer; `feed` the deltas, `tick` from time to time, `close` at the end.

    live: whether the console can move its cursor; if not, blocks appear when they are finished.
    """

    def __init__(
        self, console: Console, *, live: bool, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._console = console
        self._live = live
        self._clock = clock
        self._renderer = MarkdownRenderer(console)
        self._open = ""
        self._deltas: list[str] = []
        self._printed_any = False
        self._row_widths: list[int] = []
        self._next_redraw = clock()
        self._closed = False
        if live:
            self._write(self._draw([_WAITING]))

    @property
    def is_closed(self) -> bool:
        """Whether everything is permanent."""
        return self._closed

    def feed(self, delta: str) -> None:
        """More text; drawn now or at a later tick."""
        self._deltas.append(delta)
        self.tick()

    def tick(self) -> None:
        """Draw what is not drawn yet, if enough time has passed."""
        started = self._clock()
        if self._deltas and started >= self._next_redraw:
            self._refresh()
            finished = self._clock()
            cost = finished - started
            self._next_redraw = finished + max(REDRAW_SECONDS - cost, IDLE_PER_WORK * cost)

    def close(self) -> None:
        """The text is complete: everything becomes permanent. Closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._take_deltas()
        self._write(self._erase() + self._permanent(self._renderer.blocks(self._open)))
        self._open = ""

    def _take_deltas(self) -> None:
        self._open += neutralise("".join(self._deltas))
        self._deltas.clear()

    def _refresh(self) -> None:
        self._take_deltas()
        # Only whole lines decide what is finished: `#` alone is a heading, `#1` goes on with the
        # paragraph before it. The last block of the whole lines may still grow.
        whole_lines = self._open[: self._open.rfind("\n") + 1]
        blocks = self._renderer.blocks(whole_lines)
        finished = ""
        if len(blocks) > 1:
            finished = self._permanent(blocks[:-1])
            self._open = "\n".join(self._open.split("\n")[blocks[-1].first_line :])
        if not self._live:
            self._write(finished)
            return
        erase = self._erase()
        rows = self._rows(self._renderer.blocks(self._open))
        self._write(erase + finished + self._draw(rows or [_WAITING]))

    def _permanent(self, blocks: list[Block]) -> str:
        rows = self._rows(blocks)
        if not rows:
            return ""
        self._printed_any = True
        return self._text(rows) + "\n"

    def _rows(self, blocks: list[Block]) -> list[list[Segment]]:
        rows: list[list[Segment]] = []
        for block in blocks:
            if rows or self._printed_any:
                rows.append([])
            rows.extend(self._renderer.lines(block))
        return rows

    def _draw(self, rows: list[list[Segment]]) -> str:
        # Never a full screen: its first row would scroll away and could not be erased.
        visible = rows[-max(1, self._console.height - 1) :]
        self._row_widths = [sum(cell_len(text) for text, _, _ in row) for row in visible]
        return _WRAP_OFF + self._text(visible) + _WRAP_ON

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
        up = f"\x1b[{rows - 1}A" if rows > 1 else ""
        return f"\r{up}{_ERASE_BELOW}"

    def _text(self, rows: list[list[Segment]]) -> str:
        segments: list[Segment] = []
        for row in rows:
            segments += [*row, Segment.line()]
        with self._console.capture() as capture:
            self._console.print(Segments(segments[:-1]), end="", soft_wrap=True)
        return capture.get()

    def _write(self, text: str) -> None:
        if text:
            self._console.file.write(text)
            self._console.file.flush()
