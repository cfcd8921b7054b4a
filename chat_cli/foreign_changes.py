"""What became of a conversation elsewhere: in another terminal, or another process.

Knows two paths of messages, and neither a store nor who changed what.
"""

from __future__ import annotations

from collections.abc import Sequence

from radixchat.server.protocol import MessageView


def foreign_changes(known: Sequence[MessageView], now: Sequence[MessageView]) -> str | None:
    """What to tell somebody who knows one path and is about to go on from another; None: nothing.

    A turn is a user's message: a new one was added, a lost one taken back, and an edit did both.
    """
    if [message.id for message in known] == [message.id for message in now]:
        return None
    known_turns, turns = _turns(known), _turns(now)
    told = [
        f"{_counted(len(ids))} {what} elsewhere"
        for ids, what in ((known_turns - turns, "taken back"), (turns - known_turns, "added"))
        if ids
    ]
    return ", ".join(told) or "the last message was answered elsewhere"


def _turns(messages: Sequence[MessageView]) -> set[str]:
    return {message.id for message in messages if message.role == "user"}


def _counted(turns: int) -> str:
    return f"{turns} turn was" if turns == 1 else f"{turns} turns were"
