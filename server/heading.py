"""What a conversation is called in a list: its title, or else how it begins.

Owns how long a title may be, and the one line that stands for a conversation, in Markdown and in a
terminal's list; the page has its own. Knows no database, and changes no title.
"""

from __future__ import annotations

import unicodedata

from radixchat.engine.errors import InvalidRequest
from radixchat.server.message import check_text

MAX_TITLE = 1000
MAX_LETTERS = 60
_NEUTRAL = "\ufffd"


def check_title(title: str) -> str:
    """The title; raises InvalidRequest where it is too long, or not valid Unicode."""
    if len(title) > MAX_TITLE:
        raise InvalidRequest(
            f"the title has {len(title):,} characters; at most {MAX_TITLE:,} will do"
        )
    return check_text("the title", title)


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
