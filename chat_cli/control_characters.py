"""Control characters of text that others wrote, made harmless for a terminal.

Owns the table. Model output, titles, file names and error messages can carry escape sequences
that write the clipboard, move the cursor or hide text; a terminal obeys them wherever they come
from. Knows no terminal and no Markdown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


def _table() -> dict[int, str | None]:
    # U+2400.. are the visible pictures of C0; what was there can be seen, and does nothing.
    table: dict[int, str | None] = {code: chr(0x2400 + code) for code in range(0x20)}
    del table[ord("\n")], table[ord("\t")]
    # A carriage return would let the rest of a line overwrite its start; CRLF is common.
    table[ord("\r")] = None
    table[0x7F] = "\u2421"
    table |= dict.fromkeys(range(0x80, 0xA0), "\ufffd")
    # Line and paragraph separators: some terminals break the line there, rich does not count it.
    table |= {0x2028: "\n", 0x2029: "\n"}
    return table


_NEUTRAL: Mapping[int, str | None] = MappingProxyType(_table())


def neutralise(text: str) -> str:
    r"""`text` without C0 (but \n and \t), DEL and C1 characters; the same text otherwise.

    They become visible pictures (ESC: ␛), a carriage return disappears. Character by character,
    so that a streamed text may be neutralised delta by delta.
    """
    return text.translate(_NEUTRAL)


def neutral_line(text: str) -> str:
    """As `neutralise`, on one line: for titles, names and error messages."""
    return " ".join(neutralise(text).split("\n"))
