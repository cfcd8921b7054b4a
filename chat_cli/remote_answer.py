"""`RemoteAnswer`: one answer put together from what comes over any number of connections.

    place    the number of the last event; what has it or a lower one came before
    text     what has been handed on; a delta that begins inside it is cut, one behind it is a gap

Every character and the one end are handed on once. Knows no connection: `exchange.py` feeds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from radixchat.chat_cli.inbox import Event
from radixchat.server.event_reader import ProtocolError, response_event
from radixchat.server.protocol import (
    OutputTextDelta,
    RadixChatError,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseSnapshot,
    ResponseTimings,
    ResponseUsage,
    describe_error,
)

FROM_THE_START = -1


class Gap(Exception):
    """Some of the answer is missing; it has to be read again, from its beginning."""


class RemoteAnswer:
    """How far an answer has come; `take` every event of it."""

    def __init__(self) -> None:
        self.response: str | None = None
        self._conversation: str | None = None
        self.place = FROM_THE_START
        self.ended = False
        self._text = ""

    def read_again(self) -> None:
        """From now on the numbers are counted from the beginning; the text is what it is."""
        self.place = FROM_THE_START

    def take(self, event: Event) -> Iterator[ResponseEvent]:
        """What is new in it. Raises Gap; ProtocolError where the server contradicts itself."""
        is_snapshot = event.get("type") == "response.snapshot"
        number = None if is_snapshot else event.get("sequence_number")
        if number is not None:
            if number <= self.place:
                return
            first = event.get("x", {}).get("first_sequence_number", number)
            if first > self.place + 1:
                raise Gap
        value = response_event(event)
        yield from self._news(value)
        if number is not None:
            self.place = number

    def cut_short(self, why: RadixChatError) -> ResponseDone:
        """The end of an answer whose server cannot be asked: what came of it, and why no more."""
        assert self.response is not None, "it has begun"
        return ResponseDone(
            conversation=self._conversation,
            response=self.response,
            status="incomplete",
            reason="interrupted",
            output_text=self._text,
            usage=ResponseUsage(0, 0, 0, 0),
            timings=ResponseTimings(None, None, None),
            input_ids=(),
            output_ids=(),
            error=describe_error(why),
        )

    def _news(self, value: ResponseEvent | None) -> Iterator[ResponseEvent]:
        match value:
            case ResponseCreated():
                if self.response is None:
                    self.response = value.response
                    self._conversation = value.conversation
                    yield value
            case OutputTextDelta():
                yield from self._delta(value)
            case ResponseSnapshot():
                whole = OutputTextDelta(value.response, value.output_text, value.sequence)
                yield from self._delta(whole)
                self.place = value.sequence
            case ResponseDone():
                yield from self._end(value)
            case None:
                pass
            case _:
                yield value

    def _delta(self, delta: OutputTextDelta) -> Iterator[ResponseEvent]:
        known = len(self._text) - delta.offset
        if known < 0:
            raise Gap
        if known and not _agree(self._text[delta.offset :], delta.delta):
            raise ProtocolError(_ANOTHER_TEXT)
        new = delta.delta[known:]
        if new:
            offset = len(self._text)
            self._text += new
            yield replace(delta, delta=new, offset=offset)

    def _end(self, done: ResponseDone) -> Iterator[ResponseEvent]:
        if not done.output_text.startswith(self._text):
            raise ProtocolError(_ANOTHER_TEXT)
        if len(done.output_text) > len(self._text):
            raise Gap
        self.ended = True
        yield done


def _agree(known: str, delta: str) -> bool:
    """Whether two texts are the same as far as both go."""
    shared = min(len(known), len(delta))
    return known[:shared] == delta[:shared]


_ANOTHER_TEXT = "the server goes on with another text than it had sent; /regen asks for it again"
