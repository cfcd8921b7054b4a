"""The branches of a conversation, in an order that stays: runs of messages without a choice.

    ● system ─ ● you                    a run; two answers follow
               ├─ ● model               an offshoot: a run that ends, number 1
               ● model ─ ● you ─ ...    the newest goes on below, in the same column: number 2

Knows no drawing. What is known of a tree only ever grows, at its ends and by newer siblings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from radixchat.server.protocol import TreeMessage


@dataclass(frozen=True, slots=True)
class Run:
    """Messages of which each is the only answer to the one before.

    depth: offshoots that it lies in. is_offshoot: it begins one. number: of the branch that ends
    with it, counted from 1 as the runs come; None: a choice follows.
    """

    messages: tuple[TreeMessage, ...]
    depth: int
    is_offshoot: bool
    number: int | None


def runs(messages: Sequence[TreeMessage]) -> list[Run]:
    """All of a tree, each after the one that it follows; of siblings the oldest first."""
    children = _children(messages)
    found: list[Run] = []
    number = 0
    waiting = _choices(children.get(None, []), 0)
    while waiting:
        message, depth, is_offshoot = waiting.pop()
        run = [message]
        while len(below := children.get(run[-1].id, [])) == 1:
            run += below
        number += not below
        found.append(Run(tuple(run), depth, is_offshoot, None if below else number))
        waiting += _choices(below, depth)
    return found


def branch_ends(messages: Sequence[TreeMessage]) -> tuple[str, ...]:
    """The last message of each branch, in the order of their numbers."""
    return tuple(run.messages[-1].id for run in runs(messages) if run.number is not None)


def tip(messages: Sequence[TreeMessage]) -> str | None:
    """Where the conversation is; None: before its first message."""
    path = [message for message in messages if message.on_path]
    parents = {message.parent for message in path}
    return next((message.id for message in path if message.id not in parents), None)


def _children(messages: Sequence[TreeMessage]) -> Mapping[str | None, list[TreeMessage]]:
    known = {message.id for message in messages}
    children: dict[str | None, list[TreeMessage]] = {}
    # The order in which they are given decides between two of one moment.
    for message in sorted(messages, key=lambda message: message.created_at):
        parent = message.parent if message.parent in known else None
        children.setdefault(parent, []).append(message)
    return children


def _choices(siblings: Sequence[TreeMessage], depth: int) -> list[tuple[TreeMessage, int, bool]]:
    """With depth, and whether it is an offshoot; the one that comes first stands last."""
    if not siblings:
        return []
    *older, newest = siblings
    return [(newest, depth, False), *((one, depth + 1, True) for one in reversed(older))]
