"""A conversation's path as Markdown, for people. Takes values. Knows no database."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from radixchat.server.message import Message
from radixchat.server.rows import ConversationRow

_ROLES = {"system": "System", "user": "User", "assistant": "Assistant"}
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")

# Whatever ended an answer early has "interrupted" it, limits most of all.
_STATES = {"complete": "", "interrupted": "cut short", "error": "failed"}


def write_markdown(row: ConversationRow, path: Sequence[Message]) -> str:
    """A heading with what it is, then each message under the name of who said it."""
    title = row.heading or "Conversation"
    turns = f"{row.num_turns} turns" if row.num_turns != 1 else "1 turn"
    begun = datetime.fromtimestamp(row.created_at, UTC)
    parts = [f"# {title}", f"*{row.id}, {turns}, begun {begun:%Y-%m-%d %H:%M} UTC*"]
    for message in path:
        word = _STATES.get(message.status, message.status)
        state = f" ({word})" if word else ""
        parts += [f"## {_ROLES[message.role]}{state}", _closed(message.text.rstrip("\n"))]
    return "\n\n".join(parts) + "\n"


def _closed(text: str) -> str:
    """The text with its last code block ended, which an interrupted answer may have left open."""
    fence = ""
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        if found is None:
            continue
        marks, rest = found.groups()
        if not fence:
            fence = "" if marks[0] == "`" and "`" in rest else marks
        elif marks.startswith(fence) and not rest.strip():
            fence = ""
    return f"{text}\n{fence}" if fence else text
