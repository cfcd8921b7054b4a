"""What a conversation is called in a list: its title, or else how it begins. Standard library only.

Owns the one line that stands for a conversation, in Markdown and in a terminal's list; the page has
its own. Knows no database, and changes no title.
"""

from __future__ import annotations

import unicodedata

MAX_LETTERS = 60
_NEUTRAL = "\ufffd"


def heading(title: str, opening: str) -> str:
    """One line without control characters: the title, else the opening's first letters; or "".

    title: as its owner gave it, which is not cut. opening: the first user's message, or some of it.
    """
    line = _line(title)
    if line:
        return line
    line = _line(opening)
    return line if len(line) <= MAX_LETTERS else f"{line[: MAX_LETTERS - 1].rstrip()}…"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return "".join(_NEUTRAL if unicodedata.category(c) == "Cc" else c for c in line)
