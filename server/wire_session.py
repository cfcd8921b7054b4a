"""Conversations and the cache's tree on the wire. Wire values, standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from radixchat.server.views import (
    CacheTree,
    ConversationView,
    MessageView,
    SearchHit,
    TreeMessage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionObject:
    """A conversation: a named tip in the message tree; running: the response in progress.

    opening: how its first user message begins, to be shown where there is no name.
    """

    id: str
    name: str
    opening: str
    instructions: str | None
    tip: str | None
    created_at: float
    updated_at: float
    num_turns: int
    running: str | None
    metadata: Mapping[str, str]

    @classmethod
    def of(cls, view: ConversationView) -> SessionObject:
        """From what the service says."""
        return cls(
            id=view.id,
            name=view.title,
            opening=view.opening,
            instructions=view.system,
            tip=view.tip,
            created_at=view.created_at,
            updated_at=view.updated_at,
            num_turns=view.num_turns,
            running=view.running,
            metadata=view.metadata,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageObject:
    """A message on the path; status: "complete", "interrupted" or "error"."""

    id: str
    role: str
    text: str
    status: str

    @classmethod
    def of(cls, view: MessageView) -> MessageObject:
        """From what the service says."""
        return cls(id=view.id, role=view.role, text=view.text, status=view.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeMessageObject:
    """A message of the tree; on_path: it leads to the tip; responses: those that made it.

    tokens, cached: its share of a prompt, and what of it is cached, where that was asked for.
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

    @classmethod
    def of(cls, view: TreeMessage) -> TreeMessageObject:
        """From what the service says."""
        return cls(
            id=view.id,
            parent=view.parent,
            role=view.role,
            text=view.text,
            status=view.status,
            on_path=view.on_path,
            responses=view.responses,
            created_at=view.created_at,
            tokens=view.tokens,
            cached=view.cached,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHitObject:
    """A message that was found; in the snippet, what was looked for is between « and »."""

    session_id: str
    name: str
    message: str
    role: str
    snippet: str

    @classmethod
    def of(cls, hit: SearchHit) -> SearchHitObject:
        """From what the service says."""
        return cls(
            session_id=hit.conversation,
            name=hit.title,
            message=hit.message,
            role=hit.role,
            snippet=hit.snippet,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheNodeObject:
    """A node of the radix tree: `tokens` positions from `start` on, below `parent`.

    superseded: its conversation has left it; locked: a request uses it; on_path: the conversation
    asked for has it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTreeObject:
    """A principal's part of the tree, parents first; left_out: nodes beyond the picture's bound."""

    nodes: tuple[CacheNodeObject, ...]
    pool_tokens: int
    cached_tokens: int
    free_tokens: int
    left_out: int

    @classmethod
    def of(cls, tree: CacheTree) -> CacheTreeObject:
        """From what the service says."""
        nodes = tuple(
            CacheNodeObject(
                id=node.id,
                parent=node.parent,
                start=node.start,
                tokens=node.tokens,
                seconds_idle=node.seconds_idle,
                superseded=node.superseded,
                locked=node.locked,
                tier=node.tier,
                on_path=node.on_path,
            )
            for node in tree.nodes
        )
        return cls(
            nodes=nodes,
            pool_tokens=tree.pool_tokens,
            cached_tokens=tree.cached_tokens,
            free_tokens=tree.free_tokens,
            left_out=tree.left_out,
        )
