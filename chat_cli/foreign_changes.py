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
    told = []
    known_turns, turns = _turns(known), _turns(now)
    if known and _system(known) != _system(now):
        told = ["the system message was changed elsewhere"]
        # What was said is stored a second time then, below the other system message.
        stayed = _alike(known, now)
        known_turns, turns = known_turns[stayed:], turns[stayed:]
    told += [
        f"{_counted(len(ids))} {what} elsewhere"
        for ids, what in (
            (set(known_turns) - set(turns), "taken back"),
            (set(turns) - set(known_turns), "added"),
        )
        if ids
    ]
    return ", ".join(told) or "the last message was answered elsewhere"


def _turns(messages: Sequence[MessageView]) -> list[str]:
    return [message.id for message in messages if message.role == "user"]


def _system(messages: Sequence[MessageView]) -> str | None:
    return next((message.text for message in messages if message.role == "system"), None)


def _alike(known: Sequence[MessageView], now: Sequence[MessageView]) -> int:
    """How many turns from the beginning on have the same texts."""
    texts = ([m.text for m in path if m.role == "user"] for path in (known, now))
    pairs = list(zip(*texts, strict=False))
    return next((index for index, (old, new) in enumerate(pairs) if old != new), len(pairs))


def _counted(turns: int) -> str:
    return f"{turns} turn was" if turns == 1 else f"{turns} turns were"
