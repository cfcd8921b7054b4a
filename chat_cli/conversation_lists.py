"""Conversations and messages in lines: what /list and /search show. Knows no client."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.conversation_names import SHORT_ID, called, turns
from radixchat.server.protocol import ConversationView, SearchHit

_DIM = Style(dim=True)
_FOUND = Style(bold=True)
_MIN_NAME = 20


def conversation_lines(
    views: Sequence[ConversationView], current: str | None, width: int
) -> list[Text]:
    """A line each, `*` before the current one: id, turns, when it was changed, name."""
    length = _telling(views)
    counts = [turns(view.num_turns) for view in views]
    column = max(map(len, counts), default=0)
    lines = []
    for view, count in zip(views, counts, strict=True):
        changed = datetime.fromtimestamp(view.updated_at).astimezone()
        line = Text(f"{'*' if view.id == current else ' '} {view.id[:length]}  ")
        line.append(f"{count:>{column}}  {changed:%Y-%m-%d %H:%M}  ", _DIM)
        name = neutral_line(called(view))
        room = max(width - line.cell_len, _MIN_NAME)
        if cell_len(name) > room:
            name = f"{set_cell_size(name, room - 1).rstrip()}…"
        lines.append(line.append(name, Style() if view.title.strip() else _DIM))
    return lines


def hit_line(hit: SearchHit) -> Text:
    """Where it was found, who said it, and the words, between « and »."""
    line = Text(f"{hit.conversation[:SHORT_ID]}  ", _DIM)
    if hit.title.strip():
        line.append(f"{neutral_line(hit.title)}: ")
    line.append(f"{hit.role}: ", _DIM)
    *before, last = neutral_line(hit.snippet).split("«")
    for index, part in enumerate([*before, last]):
        if index == 0:
            line.append(part)
            continue
        word, mark, rest = part.partition("»")
        line.append(f"«{word}{mark}", _FOUND if mark else None).append(rest)
    return line


def _telling(views: Sequence[ConversationView]) -> int:
    """How much of the ids tells them apart."""
    length = SHORT_ID
    ids = {view.id for view in views}
    longest = max(map(len, ids), default=0)
    while len({name[:length] for name in ids}) < len(ids) and length < longest:
        length += 1
    return length
