"""Draws the branches of a conversation in lines: who said what, what of it is cached, where one is.

Owns what is left out of it: of a long run its middle, of a large tree what is far from its
beginning, its end and the current message. Knows no terminal but its width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.conversation_tree import Run, runs, tip
from radixchat.chat_cli.message_state import state_word
from radixchat.server.protocol import TreeMessage

LEGEND = "● cached ◐ partly ○ not · never computed * your path; /switch #N takes a branch"

HEAD, TAIL, AROUND = 40, 40, 10
"""Lines of a large tree that are shown: at its beginning, its end, and around the current one."""
_WHOLE_RUN = 4
_MIN_EXCERPT = 10
_SCANNED = 400  # characters of a text: no line is longer, and a text may have megabytes
_COMPARED = 4000
_ALIKE = 24
_WIDE = 40
_RULE = Style(dim=True)
_COLD = Style(dim=True)
_HOT = Style()
_NUMBER = Style(bold=True)
_ROLES: Mapping[str, str] = MappingProxyType({"user": "you", "assistant": "model"})


@dataclass(frozen=True, slots=True)
class _Line:
    """Messages that one line stands for: one, or several that are folded.

    number: of the branch that ends here. is_tip: the conversation is here. begins: the line is the
    first of an offshoot.
    """

    messages: tuple[TreeMessage, ...]
    depth: int
    begins: bool
    number: int | None
    is_tip: bool


def tree_picture(messages: Sequence[TreeMessage], width: int) -> list[Text]:
    """A line a message, folded and left out as this module says. width: cells of a line."""
    here = tip(messages)
    starts = _starts(messages)
    lines = [line for run in runs(messages) for line in _lines(run, here)]
    shown = _shown(lines)
    picture: list[Text] = []
    last = -1
    for index in shown:
        if index > last + 1:
            picture.append(_left_out(lines[last + 1 : index], width))
        picture.append(_draw(lines[index], starts, width))
        last = index
    return picture


def _lines(run: Run, here: str | None) -> Iterator[_Line]:
    """Of a long run its ends, and the message where the conversation is."""
    count = len(run.messages)
    kept = {0, count - 2, count - 1} if count > _WHOLE_RUN else set(range(count))
    kept |= {index for index, message in enumerate(run.messages) if message.id == here}
    start = 0
    while start < count:
        stop = start + 1
        if start not in kept:
            while stop not in kept:
                stop += 1
        some = run.messages[start:stop]
        yield _Line(
            messages=some,
            depth=run.depth,
            begins=run.is_offshoot and start == 0,
            number=run.number if stop == count else None,
            is_tip=some[-1].id == here,
        )
        start = stop


def _shown(lines: Sequence[_Line]) -> list[int]:
    """Which lines of a large tree are drawn."""
    count = len(lines)
    if count <= HEAD + TAIL + 2 * AROUND:
        return list(range(count))
    at = next((index for index, line in enumerate(lines) if line.is_tip), 0)
    around = range(max(at - AROUND, 0), min(at + AROUND + 1, count))
    return sorted({*range(HEAD), *around, *range(count - TAIL, count)})


def _left_out(lines: Sequence[_Line], width: int) -> Text:
    numbers = [line.number for line in lines if line.number is not None]
    messages = sum(len(line.messages) for line in lines)
    said = f"  … {messages:,} messages"
    if len(numbers) == 1:
        said += f", branch #{numbers[0]}"
    elif numbers:
        said += f", branches #{numbers[0]} to #{numbers[-1]}"
    return Text(_cut(f"{said} …", width), _RULE)


def _draw(line: _Line, starts: Mapping[str, int], width: int) -> Text:
    tokens, cached = _warmth(line.messages)
    style = _HOT if cached else _COLD
    on_path = all(message.on_path for message in line.messages)
    drawn = Text(f"{'*' if on_path else ' '} ", no_wrap=True)
    drawn.append(_rails(line, width), _RULE)
    first = line.messages[0]
    # A system message is computed with the message after it, and counted there.
    is_counted = tokens is not None or first.role != "system"
    drawn.append(f"{_mark(tokens, cached) if is_counted else ' '} ", style)
    if len(line.messages) > 1:
        folded = f"… {len(line.messages):,} messages …{_share(tokens, cached)}"
        return drawn.append(_cut(folded, width - drawn.cell_len), _RULE)
    drawn.append(_speaker(first.role, width), style)
    room = width - drawn.cell_len
    after: list[tuple[str, Style]] = []
    for text, look in (
        (f"  #{line.number}" if line.number is not None else "", _NUMBER),
        ("  ← here" if line.is_tip else "", _NUMBER),
        (f"  ({state})" if (state := state_word(first.status)) else "", style),
        (_share(tokens, cached), style),
    ):
        taken = cell_len(text)
        # A branch cannot be gone to without its number; the rest is good to know.
        if look is _NUMBER or room - taken >= _MIN_EXCERPT:
            after.append((text, look))
            room -= taken
    excerpt = _excerpt(first.text, starts.get(first.id, 0))
    drawn.append(_cut(excerpt, max(room, 1)), style)
    for text, look in after:
        drawn.append(text, look)
    return drawn


def _rails(line: _Line, width: int) -> str:
    """Where the branches run; those that are too deep for the width share a column."""
    room = max(width // 6, 1)
    depth = min(line.depth, room)
    if depth == 0:
        return ""
    last = "├─" if line.begins else "│ " if line.depth <= room else "┆ "
    return "│ " * (depth - 1) + last


def _speaker(role: str, width: int) -> str:
    if width < _WIDE:
        return "> " if role == "user" else ""
    return f"{_ROLES.get(role, role):<6} "


def _warmth(messages: Sequence[TreeMessage]) -> tuple[int | None, int]:
    """Tokens, and how many are cached; None: that is known of none of them."""
    known = [(m.tokens, m.cached) for m in messages if m.tokens is not None]
    if not known:
        return None, 0
    return sum(tokens for tokens, _ in known), sum(cached or 0 for _, cached in known)


def _mark(tokens: int | None, cached: int) -> str:
    if tokens is None:
        return "·"
    return "○" if not cached else "◐" if _is_partly(tokens, cached) else "●"


def _share(tokens: int | None, cached: int) -> str:
    return f"  {cached:,}/{tokens:,}" if tokens is not None and _is_partly(tokens, cached) else ""


def _is_partly(tokens: int, cached: int) -> bool:
    # The last token of an answer is never in the cache: nobody has asked what follows it.
    return 0 < cached < tokens - 1


def _starts(messages: Sequence[TreeMessage]) -> Mapping[str, int]:
    """Where the excerpts begin of messages that begin as a sibling does: the word that differs."""
    siblings: dict[str | None, list[TreeMessage]] = {}
    for message in messages:
        siblings.setdefault(message.parent, []).append(message)
    starts: dict[str, int] = {}
    for group in siblings.values():
        # Of texts in their order, each is most like the one before or the one behind it.
        texts = sorted((message.text[:_COMPARED], message.id) for message in group)
        for (one, first), (other, second) in pairwise(texts):
            pairs = zip(one, other, strict=False)
            alike = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
            start = max(one.rfind(" ", 0, alike), one.rfind("\n", 0, alike)) + 1
            if start >= _ALIKE and one != other:
                for name in (first, second):
                    starts[name] = max(start, starts.get(name, 0))
    return starts


def _excerpt(text: str, start: int) -> str:
    line = neutral_line(" ".join(text[start : start + _SCANNED].split()))
    if len(text) > start + _SCANNED:
        line += "…"
    return f"…{line}" if start else line or "(empty)"


def _cut(line: str, room: int) -> str:
    """At most `room` cells of it."""
    return line if cell_len(line) <= room else f"{set_cell_size(line, room - 1).rstrip()}…"
