"""The events of a response on the wire: OpenAI's, and ours beside them. Wire values, stdlib only.

OpenAI's have a `sequence_number`, ours have none: they are states and no part of the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from radixchat.server.wire_response import (
    CacheDetails,
    OutputMessage,
    OutputText,
    ResponseObject,
    TokenLogprob,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """stream_id: the lane that it comes on."""

    sequence_number: int
    stream_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleEvent(LogEvent):
    """in_reply_to: the event that asked for it, to a client that said hello."""

    response: ResponseObject
    in_reply_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCreatedEvent(LifecycleEvent):
    """It is accepted and stored."""

    type: Literal["response.created"] = "response.created"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseInProgressEvent(LifecycleEvent):
    """Nothing more than that, at once."""

    type: Literal["response.in_progress"] = "response.in_progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCompletedEvent(LifecycleEvent):
    """The end: the model stopped, or nothing was to be generated."""

    type: Literal["response.completed"] = "response.completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseIncompleteEvent(LifecycleEvent):
    """The end: a limit, or somebody (then the response's status is "cancelled")."""

    type: Literal["response.incomplete"] = "response.incomplete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFailedEvent(LifecycleEvent):
    """The end: an error, which the response tells."""

    type: Literal["response.failed"] = "response.failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputItemAddedEvent(LogEvent):
    """The answer begins."""

    type: Literal["response.output_item.added"] = "response.output_item.added"
    output_index: int = 0
    item: OutputMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputItemDoneEvent(LogEvent):
    """The answer is as it stays."""

    type: Literal["response.output_item.done"] = "response.output_item.done"
    output_index: int = 0
    item: OutputMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEvent(LogEvent):
    """item_id: the answer's."""

    item_id: str
    output_index: int = 0
    content_index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentPartAddedEvent(PartEvent):
    """Its text begins."""

    type: Literal["response.content_part.added"] = "response.content_part.added"
    part: OutputText


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentPartDoneEvent(PartEvent):
    """Its text is as it stays."""

    type: Literal["response.content_part.done"] = "response.content_part.done"
    part: OutputText


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaExtras:
    """offset: code points of the text before this delta.

    first_sequence_number: where several were merged into this one, the first one's number.
    """

    offset: int
    first_sequence_number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTextDeltaEvent(PartEvent):
    """More of the text."""

    type: Literal["response.output_text.delta"] = "response.output_text.delta"
    delta: str
    logprobs: tuple[TokenLogprob, ...] = ()
    x: DeltaExtras


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTextDoneEvent(PartEvent):
    """The whole text."""

    type: Literal["response.output_text.done"] = "response.output_text.done"
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEvent:
    """An event of ours about a response."""

    response_id: str
    stream_id: str | None = None
    in_reply_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillProgressEvent(StateEvent):
    """Of `total` tokens of the prompt, `processed` are there, `cached` of them from the cache."""

    type: Literal["response.prefill.progress"] = "response.prefill.progress"
    total: int
    cached: int
    processed: int
    time_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentObject:
    """Tokens [from, to) of the prompt; message: whose they are.

    state: "memory", "host", "disk", "store" or "computed". text: what they are, where that was
    asked for.
    """

    from_: int
    to: int
    state: str
    message: str | None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCacheEvent(StateEvent):
    """Where the prompt's tokens came from; divergence: why no more was in the cache."""

    type: Literal["response.cache"] = "response.cache"
    input_tokens: int
    cached_tokens: int
    computed_tokens: int
    segments: tuple[SegmentObject, ...]
    divergence: CacheDetails | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSnapshotEvent(StateEvent):
    """The text up to a sequence number: it replaces what the client has."""

    type: Literal["response.snapshot"] = "response.snapshot"
    sequence_number: int
    output_text: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseResumedEvent(StateEvent):
    """What comes now; replay: every event from number `from` on; snapshot: the whole text."""

    type: Literal["response.resumed"] = "response.resumed"
    mode: Literal["replay", "snapshot"]
    from_: int


OpenAIEvent = (
    ResponseCreatedEvent
    | ResponseInProgressEvent
    | OutputItemAddedEvent
    | ContentPartAddedEvent
    | OutputTextDeltaEvent
    | OutputTextDoneEvent
    | ContentPartDoneEvent
    | OutputItemDoneEvent
    | ResponseCompletedEvent
    | ResponseIncompleteEvent
    | ResponseFailedEvent
)
StateOfResponse = (
    PrefillProgressEvent | ResponseCacheEvent | ResponseSnapshotEvent | ResponseResumedEvent
)
