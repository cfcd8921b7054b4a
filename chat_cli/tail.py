"""The end of a stored conversation, shown when it is continued at a terminal.

Knows messages and an output, no store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from radixchat.chat_cli.control_characters import neutralise
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.render import Output
from radixchat.server.protocol import MessageView

_MARKS: Mapping[str, str] = MappingProxyType(
    {
        "interrupted": "this answer was cut short; /continue goes on with it",
        "error": "this answer failed; /regen asks again",
    }
)


def show_tail(messages: Sequence[MessageView], output: Output, notes: Notes) -> None:
    """The last user's message and what followed, an unfinished answer marked as such."""
    last = max((i for i, m in enumerate(messages) if m.role == "user"), default=None)
    if last is None:
        return
    earlier = sum(message.role == "user" for message in messages[:last])
    if earlier:
        notes.aside(f"… {earlier} earlier {'turn' if earlier == 1 else 'turns'}")
    for line in neutralise(messages[last].text).split("\n"):
        notes.aside(f"> {line}")
    for message in messages[last + 1 :]:
        answer = output.begin()
        answer.feed(message.text)
        answer.close()
        if message.status in _MARKS:
            notes.aside(_MARKS[message.status])
    if last == len(messages) - 1:
        notes.aside("this message has no answer; /regen asks for one")
