"""What a client sends on the socket: one class an event. Wire values, standard library only.

OpenAI's are `response.create` and `response.steer`; the others are for clients that said hello.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from radixchat.server.wire_input import (
    AnswerCount,
    EventId,
    GrammarFormat,
    Id,
    Input,
    LaneName,
    Metadata,
    Names,
    ResponseRequest,
    Sampling,
    TextConfig,
    Title,
)
from radixchat.server.wire_value import Bound

Count = Annotated[int, Bound(ge=1, le=1000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMessage:
    """event_id: the client's name for this event; what answers it says so.

    Of an event that begins a response: the same id again within 24 hours is the same response.
    """

    event_id: EventId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneMessage(ClientMessage):
    """stream_id: the lane; what is on one lane comes one after another."""

    stream_id: LaneName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCreate(ResponseRequest):
    """Answer the input."""

    type: Literal["response.create"] = "response.create"
    event_id: EventId | None = None
    stream_id: LaneName | None = None
    stream: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCancel(LaneMessage):
    """End a response; its terminal event is the answer. Again: nothing."""

    type: Literal["response.cancel"] = "response.cancel"
    response_id: Id


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeExtras:
    """continue: a response that the server's end cut short goes on where it stopped.

    return_token_ids: the exact tokens in the last event, as far as they are still known.
    """

    continue_: bool | None = None
    return_token_ids: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseResume(LaneMessage):
    """Go on reading a response after that sequence number; -1: from its beginning."""

    type: Literal["response.resume"] = "response.resume"
    response_id: Id
    starting_after: Annotated[int, Bound(ge=-1)] = -1
    x: ResumeExtras | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegenerateExtras(Sampling):
    """As Extras, of another answer."""

    response_format: GrammarFormat | None = None
    on_busy: Literal["reject", "queue", "interrupt"] | None = None
    return_progress: bool | None = None
    return_token_ids: bool | None = None
    detach_s: Annotated[float, Bound(ge=-1)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMessage(LaneMessage):
    """What is asked of an answer to something that was said before."""

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    truncation: Literal["auto", "disabled"] | None = None
    text: TextConfig | None = None
    metadata: Metadata | None = None
    x: RegenerateExtras | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRegenerate(AnswerMessage):
    """n other answers to a question: a response's (siblings of it), or a conversation's last."""

    type: Literal["response.regenerate"] = "response.regenerate"
    response_id: Id | None = None
    conversation: Id | None = None
    n: AnswerCount = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseExtend(AnswerMessage):
    """Go on with a conversation's last answer, which was cut short: a longer one that begins so.

    max_output_tokens counts what is new. The short answer stays in the tree.
    """

    type: Literal["response.extend"] = "response.extend"
    conversation: Id


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSteer(LaneMessage):
    """OpenAI's; refused: this server does not steer a running response."""

    type: Literal["response.steer"] = "response.steer"
    previous_response_id: Id
    input: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreate(ClientMessage):
    """A new conversation; instructions: its system message."""

    type: Literal["session.create"] = "session.create"
    name: Title = ""
    instructions: str | None = None
    metadata: Metadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMessage(ClientMessage):
    """session_id: a conversation's id."""

    session_id: Id


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGet(SessionMessage):
    """A conversation and the messages on its path."""

    type: Literal["session.get"] = "session.get"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResolve(ClientMessage):
    """The conversation whose id begins so."""

    type: Literal["session.resolve"] = "session.resolve"
    prefix: Id


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionList(ClientMessage):
    """Conversations, the one used last first; after: those that come after that one."""

    type: Literal["session.list"] = "session.list"
    limit: Count = 20
    after: Id | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdate(SessionMessage):
    """Another name, metadata, system message or tip.

    instructions: what was said is the same, and is computed again after them; "": none.
    expected_tip: nothing changes if the tip is another.
    """

    type: Literal["session.update"] = "session.update"
    name: Title | None = None
    metadata: Metadata | None = None
    instructions: str | None = None
    tip: Id | None = None
    expected_tip: Id | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUndo(SessionMessage):
    """Take the last turn off; its messages stay in the tree."""

    type: Literal["session.undo"] = "session.undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpen(SessionMessage):
    """Somebody is about to go on with it: what is kept of it below the cache is read ahead."""

    type: Literal["session.open"] = "session.open"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClose(SessionMessage):
    """Nobody is about to go on with it: others' cached tokens are worth more now."""

    type: Literal["session.close"] = "session.close"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDelete(SessionMessage):
    """Erase the conversation and what is cached of it alone."""

    type: Literal["session.delete"] = "session.delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFork(SessionMessage):
    """A new conversation that goes on from a message or a response; null: from the tip."""

    type: Literal["session.fork"] = "session.fork"
    at: Id | None = None
    name: Title = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTree(SessionMessage):
    """Every message of the conversation, those that it has left too.

    warmth: with each one's tokens, and how many of these are cached.
    """

    type: Literal["session.tree"] = "session.tree"
    warmth: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSearch(ClientMessage):
    """The messages with these words, in all conversations."""

    type: Literal["session.search"] = "session.search"
    query: Annotated[str, Bound(max_length=1000)]
    limit: Count = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExport(SessionMessage):
    """The conversation as one text."""

    type: Literal["session.export"] = "session.export"
    format: Literal["json", "markdown"] = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSubscribe(SessionMessage):
    """Hear of the conversation's responses, whoever asks for them."""

    type: Literal["session.subscribe"] = "session.subscribe"
    starting_after: Annotated[int, Bound(ge=-1)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUnsubscribe(SessionMessage):
    """No longer."""

    type: Literal["session.unsubscribe"] = "session.unsubscribe"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillDraft(SessionMessage):
    """What is typed so far; revision: grows; what an older one began is dropped."""

    type: Literal["prefill.draft"] = "prefill.draft"
    revision: Annotated[int, Bound(ge=0)]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillDrop(SessionMessage):
    """Nothing is typed any more."""

    type: Literal["prefill.drop"] = "prefill.drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheInspect(ClientMessage):
    """What the cache has of a conversation's next turn, or of a text. Changes nothing.

    turn: of the conversation as if the input, or without one the turn's own text, took the place of
    that user turn, from 1. texts: with each segment's text.
    """

    type: Literal["cache.inspect"] = "cache.inspect"
    session_id: Id | None = None
    input: Input | None = None
    turn: Count | None = None
    texts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTreeGet(ClientMessage):
    """The principal's part of the radix tree; session_id: whose path is marked."""

    type: Literal["cache.tree"] = "cache.tree"
    session_id: Id | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStats(ClientMessage):
    """The engine's counters."""

    type: Literal["server.stats"] = "server.stats"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHello(ClientMessage):
    """Asks for our events. features: what the client knows of; none named: all."""

    type: Literal["client.hello"] = "client.hello"
    protocol: int = 1
    features: Names | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth(ClientMessage):
    """The key, where the server asks for it in the first message."""

    type: Literal["auth"] = "auth"
    token: Annotated[str, Bound(max_length=4096)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping(ClientMessage):
    """t comes back."""

    type: Literal["ping"] = "ping"
    t: float | str | None = None


ClientEvent = (
    ResponseCreate
    | ResponseCancel
    | ResponseResume
    | ResponseRegenerate
    | ResponseExtend
    | ResponseSteer
    | SessionCreate
    | SessionGet
    | SessionResolve
    | SessionList
    | SessionUpdate
    | SessionUndo
    | SessionOpen
    | SessionClose
    | SessionDelete
    | SessionFork
    | SessionTree
    | SessionSearch
    | SessionExport
    | SessionSubscribe
    | SessionUnsubscribe
    | PrefillDraft
    | PrefillDrop
    | CacheInspect
    | CacheTreeGet
    | ServerStats
    | ClientHello
    | Auth
    | Ping
)
