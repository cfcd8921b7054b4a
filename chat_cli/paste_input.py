"""Keys from a terminal, in which a huge paste costs what its bytes cost.

Owns how a paste is collected. prompt_toolkit appends each kilobyte that it reads to all of it and
searches all of that for the end: 0.36 s for a megabyte, 1.4 s for two. Knows no key's meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

_END = "\x1b[201~"
_READ_BYTES = 1 << 16


class PasteInput(Vt100Input):
    """The terminal `stdin`."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.vt100_parser = PasteParser(self._buffer_key)

    def read_keys(self) -> list[KeyPress]:
        """What has come, as far as it is whole keys."""
        self.vt100_parser.feed(self.stdin_reader.read(_READ_BYTES))
        keys, self._buffer = self._buffer, []
        return keys

    def _buffer_key(self, key: KeyPress) -> None:
        self._buffer.append(key)


class PasteParser(Vt100Parser):
    """Takes a paste piece by piece, and looks for its end where that can be: in the last piece."""

    def __init__(self, feed_key: Callable[[KeyPress], None]) -> None:
        super().__init__(feed_key)
        self._pieces: list[str] = []
        self._tail = ""

    def feed(self, data: str) -> None:
        """More of what the terminal sends."""
        if not self._in_bracketed_paste:
            super().feed(data)
            return
        data = self._tail + data  # the end may lie in several pieces
        end = data.find(_END)
        if end < 0:
            cut = max(0, len(data) - len(_END) + 1)
            self._pieces.append(data[:cut])
            self._tail = data[cut:]
            return
        pasted = "".join([*self._pieces, data[:end]])
        self._pieces.clear()
        self._tail = ""
        self._in_bracketed_paste = False
        self.feed_key_callback(KeyPress(Keys.BracketedPaste, pasted))
        self.feed(data[end + len(_END) :])
