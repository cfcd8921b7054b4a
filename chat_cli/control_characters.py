"""Control characters of text that others wrote, made harmless for a terminal.

Owns the tables. Model output, titles, file names and error messages can carry escape sequences
that write the clipboard, move the cursor or hide text; a terminal obeys them wherever they come
from, and a pipe often ends at one. Knows no terminal and no Markdown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


def _controls() -> dict[int, str | None]:
    # U+2400.. are the visible pictures of C0; what was there can be seen, and does nothing.
    table: dict[int, str | None] = {code: chr(0x2400 + code) for code in range(0x20)}
    del table[ord("\n")], table[ord("\t")]
    # A carriage return would let the rest of a line overwrite its start; CRLF is common.
    table[ord("\r")] = None
    table[0x7F] = "\u2421"
    return table | dict.fromkeys(range(0x80, 0xA0), "\ufffd")


def _in_one_line() -> dict[int, str | None]:
    # A name stands beside words of ours. Embeddings, overrides and isolates reorder those words
    # too ("exe.txt"); without them Hebrew and Arabic read as ever, each terminal decides how.
    table: dict[int, str | None] = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
    # Spaces without width, and other characters that nobody sees: two names that differ in them
    # look the same. ZWJ, ZWNJ, the marks of direction and the variation selectors stay: emoji,
    # Persian and Hebrew are written with them.
    invisible = (0xAD, 0x34F, 0x180E, 0x200B, 0xFEFF)
    table |= dict.fromkeys([*invisible, *range(0x2060, 0x2066), *range(0x206A, 0x2070)])
    table |= dict.fromkeys([*range(0xFFF9, 0xFFFC), 0x115F, 0x1160, 0x3164, 0xFFA0])
    table = dict.fromkeys(table, "\ufffd")
    # Tags follow an emoji in the flags of England, Scotland and Wales; elsewhere they hide text.
    table |= dict.fromkeys(range(0xE0000, 0xE0080))
    return table | {ord("\n"): " ", ord("\t"): " "}


_CONTROLS: Mapping[int, str | None] = MappingProxyType(_controls())
# Line and paragraph separators: some terminals break the line there, rich does not count it.
_NEUTRAL: Mapping[int, str | None] = MappingProxyType(_controls() | {0x2028: "\n", 0x2029: "\n"})
_IN_PLACE: Mapping[int, str | None] = MappingProxyType(dict(_NEUTRAL) | {ord("\r"): "\u240d"})
_IN_ONE_LINE: Mapping[int, str | None] = MappingProxyType(_in_one_line())
_IN_JSON: Mapping[int, str] = MappingProxyType(
    {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
)


def without_controls(text: str) -> str:
    r"""`text` without C0 (but \n and \t), DEL and C1 characters; the same text otherwise.

    They become visible pictures (ESC: ␛), a carriage return disappears. Character by character,
    so that a streamed text may be neutralised delta by delta.
    """
    return text.translate(_CONTROLS)


def neutralise(text: str) -> str:
    r"""As `without_controls`, and every line ends in \n: what rich may count and wrap."""
    return text.translate(_NEUTRAL)


def neutral_in_place(text: str) -> str:
    """As `neutralise`, character for character: what has spans keeps them. (CR becomes ␍.)"""
    return text.translate(_IN_PLACE)


def neutral_line(text: str) -> str:
    """As `neutralise`, on one line, for titles, names and error messages beside our own words.

    Tabs become spaces; what reorders the words around it, or has no width and no use in writing,
    becomes U+FFFD.
    """
    return neutralise(text).translate(_IN_ONE_LINE)


def safe_json(text: str) -> str:
    """A JSON text with DEL, C1 and line separators escaped too, which JSON itself allows as is."""
    return text.translate(_IN_JSON)
