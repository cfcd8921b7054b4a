"""What the server sends on the socket beside a response's events. Wire values, stdlib only.

`in_reply_to` is the `event_id` of the client event that is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from radixchat.server.wire_error import ErrorEvent
from radixchat.server.wire_response import CacheDetails
from radixchat.server.wire_response_events import OpenAIEvent, SegmentObject, StateOfResponse
from radixchat.server.wire_session import (
    CacheNodeObject,
    MessageObject,
    SearchHitObject,
    SessionObject,
    TreeMessageObject,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer to a client event."""

    in_reply_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloLimits:
    """What a connection may send; n_ctx: tokens of a conversation."""

    max_message_bytes: int
    max_lanes: int
    max_queued_per_lane: int
    n_ctx: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloResume:
    """ttl_s: how long an ended response can be replayed event by event; later as a snapshot."""

    ttl_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHello(Reply):
    """The first event to a client that said hello. boot_id: another one: the server restarted.

    notices: what a user should see once, such as what the chat template does to the cache.
    """

    type: Literal["server.hello"] = "server.hello"
    protocol: int
    server_version: str
    features: tuple[str, ...]
    limits: HelloLimits
    resume: HelloResume
    heartbeat_s: float
    boot_id: str
    model: str
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHeartbeat:
    """Nothing else was to be said for a while; responses: those that are running."""

    type: Literal["server.heartbeat"] = "server.heartbeat"
    responses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDrainingEvent:
    """The process ends when what runs has ended, or at the deadline; then close code 1012."""

    type: Literal["server.draining"] = "server.draining"
    deadline_s: float
    retry_after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthRequired:
    """The next message has to be `auth`."""

    type: Literal["auth_required"] = "auth_required"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthOk(Reply):
    """The key is known."""

    type: Literal["auth_ok"] = "auth_ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthInvalid(Reply):
    """It is not; the socket is closed."""

    type: Literal["auth_invalid"] = "auth_invalid"
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReply(Reply):
    """A conversation, as it is now."""

    session: SessionObject


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated(SessionReply):
    """It is there."""

    type: Literal["session.created"] = "session.created"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRetrieved(SessionReply):
    """messages: those on its path, oldest first."""

    type: Literal["session.retrieved"] = "session.retrieved"
    messages: tuple[MessageObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdated(SessionReply):
    """Its name, metadata or tip changed; without in_reply_to: another client's doing."""

    type: Literal["session.updated"] = "session.updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUndone(SessionReply):
    """message: the user's, of the turn that was taken off."""

    type: Literal["session.undone"] = "session.undone"
    message: MessageObject


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionForked(SessionReply):
    """session: the new one; from: that which it was forked from."""

    type: Literal["session.forked"] = "session.forked"
    from_: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionIdReply(Reply):
    """About a conversation."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResolved(SessionIdReply):
    """The whole id."""

    type: Literal["session.resolved"] = "session.resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(SessionIdReply):
    """Heard."""

    type: Literal["session.opened"] = "session.opened"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClosed(SessionIdReply):
    """Heard."""

    type: Literal["session.closed"] = "session.closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeleted(SessionIdReply):
    """It is no more."""

    type: Literal["session.deleted"] = "session.deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTreeReply(SessionIdReply):
    """Every message of it, parents first."""

    type: Literal["session.tree"] = "session.tree"
    messages: tuple[TreeMessageObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExported(SessionIdReply):
    """The conversation as one text."""

    type: Literal["session.exported"] = "session.exported"
    format: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSubscribed(SessionIdReply):
    """running: the id of its response in progress, whose events follow."""

    type: Literal["session.subscribed"] = "session.subscribed"
    running: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUnsubscribed(SessionIdReply):
    """No more of it."""

    type: Literal["session.unsubscribed"] = "session.unsubscribed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionListed(Reply):
    """has_more: there are more after the last."""

    type: Literal["session.listed"] = "session.listed"
    sessions: tuple[SessionObject, ...]
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSearched(Reply):
    """What was found, best first."""

    type: Literal["session.searched"] = "session.searched"
    hits: tuple[SearchHitObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillReady(Reply):
    """tokens: of what is typed, so many are computed; 0: a newer revision came first."""

    type: Literal["prefill.ready"] = "prefill.ready"
    session_id: str
    revision: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillDropped(Reply):
    """What was computed of a draft is given back."""

    type: Literal["prefill.dropped"] = "prefill.dropped"
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheInspected(Reply):
    """What the next turn would find: see `response.cache`.

    computing_ms: how long the rest is likely to take; null: it cannot be told yet.
    """

    type: Literal["cache.inspected"] = "cache.inspected"
    session_id: str | None
    input_tokens: int
    cached_tokens: int
    computed_tokens: int
    segments: tuple[SegmentObject, ...]
    divergence: CacheDetails | None
    computing_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTreeReply(Reply):
    """The principal's part of the tree, parents first: see CacheTreeObject."""

    type: Literal["cache.tree"] = "cache.tree"
    nodes: tuple[CacheNodeObject, ...]
    pool_tokens: int
    cached_tokens: int
    free_tokens: int
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatsReply(Reply):
    """The engine's counters, by name."""

    type: Literal["server.stats"] = "server.stats"
    stats: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong(Reply):
    """t: the ping's."""

    type: Literal["pong"] = "pong"
    t: float | str | None


ServerEvent = (
    OpenAIEvent
    | ErrorEvent
    | StateOfResponse
    | ServerHello
    | ServerHeartbeat
    | ServerDrainingEvent
    | AuthRequired
    | AuthOk
    | AuthInvalid
    | SessionCreated
    | SessionRetrieved
    | SessionUpdated
    | SessionUndone
    | SessionForked
    | SessionResolved
    | SessionOpened
    | SessionClosed
    | SessionDeleted
    | SessionTreeReply
    | SessionExported
    | SessionSubscribed
    | SessionUnsubscribed
    | SessionListed
    | SessionSearched
    | PrefillReady
    | PrefillDropped
    | CacheInspected
    | CacheTreeReply
    | ServerStatsReply
    | Pong
)
