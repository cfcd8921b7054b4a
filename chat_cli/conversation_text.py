"""A conversation as text to be read: its path in full, or all of its branches in lines.

Takes the messages. Knows no terminal: control characters are as they were said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.message_state import state_word
from radixchat.server.protocol import MessageView, TreeMessage

_EXCERPT = 60


def text_of(messages: Iterable[MessageView | TreeMessage]) -> str:
    """Each message under who said it, and what became of it if it is not complete."""
    parts = []
    for message in messages:
        state = ", ".join(filter(None, (message.role, state_word(message.status))))
        parts.append("\n".join([f"[{state}]", message.text.rstrip("\n"), ""]))
    return "\n".join(parts)


def branches_of(messages: Sequence[TreeMessage]) -> str:
    """A line per message, the oldest branch first: its id, `*` on the path, who, how it begins.

    What follows a place where the conversation branches is indented.
    """
    lines = []
    for message, depth in _walk(messages):
        excerpt = neutral_line(" ".join(message.text.split()))
        excerpt = excerpt if len(excerpt) <= _EXCERPT else f"{excerpt[: _EXCERPT - 1].rstrip()}…"
        mark = "*" if message.on_path else " "
        lines.append(f"{message.id} {mark} {'  ' * depth}{message.role}: {excerpt}\n")
    return "".join(lines)


def _walk(messages: Sequence[TreeMessage]) -> Iterator[tuple[TreeMessage, int]]:
    """Each message after its parent, with the number of branchings above it."""
    children: dict[str | None, list[TreeMessage]] = {}
    for message in messages:
        children.setdefault(message.parent, []).append(message)
    waiting = _below(None, 0, children)
    while waiting:
        message, depth = waiting.pop()
        yield message, depth
        waiting += _below(message.id, depth, children)


def _below(
    parent: str | None, depth: int, children: Mapping[str | None, list[TreeMessage]]
) -> list[tuple[TreeMessage, int]]:
    """The children, the oldest last; deeper if they are several."""
    found = sorted(children.get(parent, ()), key=lambda message: message.created_at)
    return [(message, depth + (len(found) > 1)) for message in reversed(found)]
