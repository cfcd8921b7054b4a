"""`Encoder`: the events of one response as one reader gets them, numbered as in OpenAI's API.

    ResponseCreated   0 response.created, 1 response.in_progress
    OutputTextDelta   the first: 2 output_item.added, 3 content_part.added; then 4 + i, delta i
    ResponseDone      output_text.done, content_part.done, output_item.done, and the terminal event

Knows no socket: who reads decides what becomes of the dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from radixchat.server.response_events import (
    FIRST_DELTA,
    CacheReport,
    OutputTextDelta,
    PrefillProgress,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseSnapshot,
)
from radixchat.server.response_object import (
    details_of,
    has_item,
    item_id,
    item_status,
    output_message,
    output_part,
    response_object,
)
from radixchat.server.wire_response import OutputText, ResponseObject
from radixchat.server.wire_response_events import (
    ContentPartAddedEvent,
    ContentPartDoneEvent,
    DeltaExtras,
    LifecycleEvent,
    LogEvent,
    OpenAIEvent,
    OutputItemAddedEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    OutputTextDoneEvent,
    PrefillProgressEvent,
    ResponseCacheEvent,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseFailedEvent,
    ResponseIncompleteEvent,
    ResponseInProgressEvent,
    ResponseSnapshotEvent,
    SegmentObject,
    StateOfResponse,
)
from radixchat.server.wire_value import wire_dict

_NO_TEXT = OutputText(text="")
_LAST: dict[str, type[LifecycleEvent]] = {
    "completed": ResponseCompletedEvent,
    "incomplete": ResponseIncompleteEvent,
    "failed": ResponseFailedEvent,
}


class Encoder:
    """Of one response and one reader. Give it every event, ResponseCreated first."""

    def __init__(
        self,
        lane: str | None,
        extensions: bool,
        model: str,
        *,
        after: int = -1,
        in_reply_to: str | None = None,
        progress: bool = True,
        token_ids: bool = False,
    ) -> None:
        """lane: the `stream_id` that each event has. extensions: whether the reader said hello.

        after: the reader has the events up to this number, which are left out. in_reply_to: the
        client event that began it, or that it resumes by. progress: with the events of the
        prompt's computation. token_ids: with the exact tokens at the end.
        """
        self._lane = lane
        self._extensions = extensions
        self._model = model
        self._after = after
        self._in_reply_to = in_reply_to if extensions else None
        self._progress = progress
        self._token_ids = token_ids
        self._created: ResponseCreated | None = None
        self._opened = False  # the item and the part were added

    def events(self, event: ResponseEvent) -> list[dict[str, Any]]:
        """What the reader gets of one event, in order; nothing, or several."""
        wanted = (
            encoded
            for encoded in self._encode(event)
            if not isinstance(encoded, LogEvent) or encoded.sequence_number > self._after
        )
        return [wire_dict(encoded) for encoded in wanted]

    def _encode(self, event: ResponseEvent) -> Iterator[OpenAIEvent | StateOfResponse]:
        match event:
            case ResponseCreated():
                self._created = event
                yield from self._begin(event)
            case OutputTextDelta():
                yield from self._open(event.response)
                yield self._delta(event)
            case ResponseDone():
                assert self._created is not None, "the log begins with ResponseCreated"
                yield from self._end(self._created, event)
            case ResponseSnapshot():
                yield from self._snapshot(event)
            case PrefillProgress() if self._extensions and self._progress:
                yield self._prefill(event)
            case CacheReport() if self._extensions:
                yield cache_event(event, lane=self._lane)
            case _:
                pass  # a state, for those who know of it

    def _begin(self, created: ResponseCreated) -> Iterator[OpenAIEvent]:
        response = response_object(created, model=self._model)
        replied = self._in_reply_to
        yield ResponseCreatedEvent(
            sequence_number=0, response=response, stream_id=self._lane, in_reply_to=replied
        )
        yield ResponseInProgressEvent(
            sequence_number=1, response=response, stream_id=self._lane, in_reply_to=replied
        )

    def _open(self, response: str) -> Iterator[OpenAIEvent]:
        """Events 2 and 3, before the first text."""
        if self._opened:
            return
        self._opened = True
        item = output_message(response, "in_progress", ())
        yield OutputItemAddedEvent(sequence_number=2, item=item, stream_id=self._lane)
        yield ContentPartAddedEvent(
            sequence_number=3, item_id=item.id, part=_NO_TEXT, stream_id=self._lane
        )

    def _delta(self, event: OutputTextDelta) -> OutputTextDeltaEvent:
        merged = event.first_sequence != event.sequence
        return OutputTextDeltaEvent(
            sequence_number=event.sequence,
            item_id=item_id(event.response),
            delta=event.delta,
            stream_id=self._lane,
            x=DeltaExtras(
                offset=event.offset,
                first_sequence_number=event.first_sequence if merged else None,
            ),
        )

    def _end(self, created: ResponseCreated, done: ResponseDone) -> Iterator[OpenAIEvent]:
        number, response = done.sequence, created.response
        if has_item(done):
            yield from self._open(response)
            part, item = output_part(done), item_id(response)
            yield OutputTextDoneEvent(
                sequence_number=number,
                item_id=item,
                text=part.text,
                logprobs=part.logprobs,
                stream_id=self._lane,
            )
            yield ContentPartDoneEvent(
                sequence_number=number + 1, item_id=item, part=part, stream_id=self._lane
            )
            yield OutputItemDoneEvent(
                sequence_number=number + 2,
                item=output_message(response, item_status(done), (part,)),
                stream_id=self._lane,
            )
            number += 3
        elif self._after >= FIRST_DELTA:
            number = self._after + 1  # it has text that is lost with its server
        yield self._terminal(number, created, done)

    def _terminal(self, number: int, created: ResponseCreated, done: ResponseDone) -> OpenAIEvent:
        response: ResponseObject = response_object(
            created, done, model=self._model, token_ids=self._token_ids
        )
        event = _LAST[done.status](
            sequence_number=number,
            response=response,
            stream_id=self._lane,
            in_reply_to=self._in_reply_to,
        )
        assert isinstance(event, OpenAIEvent)
        return event

    def _snapshot(self, event: ResponseSnapshot) -> Iterator[OpenAIEvent | StateOfResponse]:
        """The whole text; to one who does not know snapshots, as one delta from offset 0."""
        if self._extensions:
            if event.output_text:
                self._opened = True
            yield ResponseSnapshotEvent(
                response_id=event.response,
                sequence_number=event.sequence,
                output_text=event.output_text,
                status=event.status,
                stream_id=self._lane,
                in_reply_to=self._in_reply_to,
            )
        elif event.output_text:
            yield from self._open(event.response)
            whole = OutputTextDelta(
                event.response, event.output_text, event.sequence, FIRST_DELTA, 0
            )
            yield self._delta(whole)
        self._after = max(self._after, event.sequence)

    def _prefill(self, event: PrefillProgress) -> PrefillProgressEvent:
        return PrefillProgressEvent(
            response_id=event.response,
            total=event.total,
            cached=event.cached,
            processed=event.processed,
            time_ms=event.time_ms,
            stream_id=self._lane,
        )


def cache_event(report: CacheReport, *, lane: str | None = None) -> ResponseCacheEvent:
    """Where a prompt's tokens came from."""
    assert report.response is not None, "of a response; of none it is an answer to cache.inspect"
    miss = report.divergence
    return ResponseCacheEvent(
        response_id=report.response,
        input_tokens=report.input_tokens,
        cached_tokens=report.cached_tokens,
        computed_tokens=report.input_tokens - report.cached_tokens,
        segments=segments(report),
        divergence=None if miss is None else details_of(miss, report.source),
        stream_id=lane,
    )


def segments(report: CacheReport) -> tuple[SegmentObject, ...]:
    """The spans of a prompt, by where they came from."""
    return tuple(
        SegmentObject(
            from_=part.start, to=part.end, state=part.state, message=part.message, text=part.text
        )
        for part in report.segments
    )
