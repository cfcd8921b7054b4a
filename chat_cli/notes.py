"""Everything that is said beside the answers: notes, errors, status lines, on standard error.

Owns their look. Knows no turn: who speaks decides what to say.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.style import Style
from rich.text import Text

from radixchat.chat_cli.control_characters import neutral_in_place, neutral_line

_PLAIN = Style()
_DIM = Style(dim=True)
_ERROR = Style(color="red")
_HEADING = Style(bold=True)
_MIN_VALUE = 24
"""Cells that a value's column has at least; "nobody overtaken more than 32 times" in two lines."""
_INDENT = 4


class Notes:
    """Writes to a console on standard error; every text is neutralised first.

    quiet: only what a command was asked to show (`table`, `styled`), and errors. last_error: the
    last of these.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self.last_error: str | None = None
        self._passing: Text | None = None

    @property
    def width(self) -> int:
        """Cells that a line may have, to stay one."""
        return self._console.width

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is said that was not asked for."""
        return self._quiet

    def note(self, text: str) -> None:
        """Something worth knowing."""
        if not self._quiet:
            self._line(f"note: {neutral_line(text)}", _DIM)

    def error(self, text: str) -> None:
        """Something did not work."""
        self.last_error = text
        self._line(f"error: {neutral_line(text)}", _ERROR)

    def aside(self, text: str) -> None:
        """A dim line: the status of an answer, a hint."""
        if not self._quiet:
            self._line(neutral_line(text), _DIM)

    def table(self, rows: Mapping[str, str]) -> None:
        """Names and values, aligned; a value of several lines stays in its column.

        Where that would be too narrow, a long value stands below its name.
        """
        named = [(neutral_line(name), neutral_line(value)) for name, value in rows.items()]
        width = max((cell_len(name) for name, _ in named), default=0)
        room = self._console.width - width - 2
        has_room = not self._wraps or room >= _MIN_VALUE
        for name, value in named:
            beside = has_room or cell_len(value) <= room
            if not beside:
                self._line(name, _PLAIN)
            indent = width + 2 if beside else _INDENT
            first = set_cell_size(name, width) + "  " if beside else " " * indent
            for line in self._wrapped(value, indent):
                self._line(first + line, _PLAIN)
                first = " " * indent

    def styled(self, text: Text) -> None:
        """A text of one or more lines with styles of its own; on a pipe it has none.

        What others wrote in it is made harmless; names and titles go through `neutral_line` first.
        """
        shown = text.copy()
        shown.plain = neutral_in_place(shown.plain)
        self._print(shown)

    def heading(self, text: str) -> None:
        """What the next answer is, where there are several: "answer 2 of 3"."""
        if not self._quiet:
            self._line(f"── {neutral_line(text)} ──", _HEADING)

    @contextlib.contextmanager
    def during(self, text: str) -> Iterator[None]:
        """Show a line while the block runs, where it can be taken back; nowhere else."""
        if self._quiet or not self._console.is_terminal or self._console.is_dumb_terminal:
            yield
            return
        self._show_passing(Text(neutral_line(text), _DIM))
        try:
            yield
        finally:
            self._erase()
            self._passing = None

    @property
    def _wraps(self) -> bool:
        """Whether lines have to fit: who reads them from a file wants them whole.

        The width of a dumb terminal is not known; elsewhere the terminal would cut words.
        """
        return self._console.file.isatty() and not self._console.is_dumb_terminal

    def _wrapped(self, value: str, indent: int) -> list[str]:
        if not self._wraps:
            return [value]
        room = max(1, self._console.width - indent)
        lines = Text(value).wrap(self._console, room, tab_size=1)
        return [line.plain.rstrip() for line in lines] or [""]

    def _line(self, text: str, style: Style) -> None:
        self._print(Text(text, style))

    def _print(self, text: Text) -> None:
        passing = self._passing
        if passing is not None:
            self._erase()
        self._console.print(text, soft_wrap=not self._wraps)
        if passing is not None:
            self._show_passing(passing)

    def _show_passing(self, text: Text) -> None:
        """A line that the next one takes the place of."""
        self._passing = text
        self._console.print(text, end="\r", soft_wrap=True)

    def _erase(self) -> None:
        self._console.file.write("\x1b[K")
        self._console.file.flush()
