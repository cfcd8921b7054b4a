"""What a client sees of conversations and of the cache, and how many at once. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from radixchat.engine.errors import InvalidRequest

MAX_LISTED, MAX_FOUND = 1000, 100
"""Conversations, and messages that were found."""


def check_limit(limit: int, most: int) -> int:
    """How many are asked for; raises InvalidRequest where that is not from 1 to `most`."""
    if not 1 <= limit <= most:
        raise InvalidRequest(f"limit is {limit}; between 1 and {most} will do")
    return limit


@dataclass(frozen=True, slots=True)
class MessageView:
    """One message on a conversation's path; status: "complete", "interrupted" or "error"."""

    id: str
    role: str
    text: str
    status: str


@dataclass(frozen=True, slots=True)
class ConversationView:
    """A conversation: a named tip in the message tree.

    system: the text of the system message that it begins with. tip: the last message's id; None
    while there is none. num_turns: user messages on the path. running: the id of the response in
    progress. opening: the beginning of the path's first user message, a few hundred characters at
    most; what a list shows where there is no title. Times in seconds since the epoch.
    """

    id: str
    title: str
    system: str | None
    tip: str | None
    created_at: float
    updated_at: float
    num_turns: int
    running: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    opening: str = ""


@dataclass(frozen=True, slots=True)
class TreeMessage:
    """A message of a conversation's tree; parent: None at the root.

    on_path: it leads to the tip. responses: the ids of those that made it, of an answer. tokens:
    its share of a prompt; cached: how many of these are in the cache with all before them, or would
    come back to it. None: nobody has asked, or it cannot be told.
    """

    id: str
    parent: str | None
    role: str
    text: str
    status: str
    on_path: bool
    responses: tuple[str, ...]
    created_at: float
    tokens: int | None = None
    cached: int | None = None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that was found; snippet: its text around the words, these between « and »."""

    conversation: str
    title: str
    message: str
    role: str
    snippet: str


@dataclass(frozen=True, slots=True)
class CacheNode:
    """A node of the radix tree: `tokens` positions of a path from `start` on.

    id, parent: numbers that hold within one picture; parent: None below the root. seconds_idle:
    since it was last in use. superseded: its conversation has left it. locked: a request uses it.
    on_path: the conversation that the picture was asked for has these tokens.
    """

    id: int
    parent: int | None
    start: int
    tokens: int
    seconds_idle: float
    superseded: bool
    locked: bool
    tier: str
    on_path: bool


@dataclass(frozen=True, slots=True)
class CacheTree:
    """One principal's part of the radix tree, parents first; and the pool's tokens.

    left_out: nodes beyond the picture's bound, the longest idle ones.
    """

    nodes: tuple[CacheNode, ...]
    pool_tokens: int
    cached_tokens: int
    free_tokens: int
    left_out: int = 0
