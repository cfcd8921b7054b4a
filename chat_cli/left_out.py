"""Which turns an answer does without because the conversation is too long, in a line for people.

Knows the event that says so and the messages on the path; no terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

from radixchat.server.protocol import MessageView, ResponseCreated


def left_out_note(created: ResponseCreated, known: Sequence[MessageView]) -> str | None:
    """`turns 1 to 3 do not fit and are left out, 2,310 tokens`; None: everything fits.

    Turns as /edit counts them. known: the path before this turn; messages that are not on it have
    no number here.
    """
    if not created.left_out:
        return None
    tokens = f"{created.left_out_tokens:,} tokens; the conversation keeps them"
    turns = _turns(created.left_out, known)
    if not turns:
        return f"the oldest messages do not fit and are left out, {tokens}"
    first, last = min(turns), max(turns)
    if first == last:
        return f"turn {first} does not fit and is left out, {tokens}"
    return f"turns {first} to {last} do not fit and are left out, {tokens}"


def _turns(ids: Sequence[str], known: Sequence[MessageView]) -> set[int]:
    turn, turns = 0, set()
    for message in known:
        turn += message.role == "user"
        if message.id in ids and turn:
            turns.add(turn)
    return turns
