"""`RemoteAnswer`: one answer put together from what comes over any number of connections.

    place    the number of the last event; what has it or a lower one came before
    text     what has been handed on; a delta that begins inside it is cut, one behind it is a gap
    held     what came after it and may be taken back: a server that leaves also sends half of a
             character, or the beginning of what could have become a stop text

Every character and the one end are handed on once. Knows no connection: `answer_exchange.py` feeds
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
SERVER_SHUTDOWN = "server_shutdown"
_REPLACEMENT = "\ufffd"


class Gap(Exception):
    """Some of the answer is missing; it has to be read again, from its beginning."""


class RemoteAnswer:
    """How far an answer has come; `take` every event of it.

    goes_on: an end that only its server's end has made is none; the next server goes on with the
    answer. partial: such an end, the last one.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        """stops: the texts that it was asked to end before."""
        self.response: str | None = None
        self.place = FROM_THE_START
        self.ended = False
        self.goes_on = True
        self.partial: ResponseDone | None = None
        self._stops = stops
        self._conversation: str | None = None
        self._text = ""
        self._held = ""

    def read_again(self) -> None:
        """From now on the numbers are counted from the beginning; the text is what it is."""
        self.place = FROM_THE_START
        self._held = ""

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

    def cut_short(self, why: RadixChatError, reason: str) -> Iterator[ResponseEvent]:
        """The end of an answer whose server cannot be asked: what came of it, and why no more."""
        assert self.response is not None, "it has begun"
        done = self.partial
        if done is None or not done.output_text.startswith(self._text):
            done = ResponseDone(
                conversation=self._conversation,
                response=self.response,
                status="incomplete",
                reason=reason,
                output_text=self._text + self._held,
                usage=ResponseUsage(0, 0, 0, 0),
                timings=ResponseTimings(None, None, None),
                input_ids=(),
                output_ids=(),
            )
        yield from self._rest(done)
        yield replace(done, reason=reason, error=describe_error(why))

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
        known = self._known(delta.offset)
        if not _agree(known, delta.delta):
            raise ProtocolError(_ANOTHER_TEXT)
        pending = self._held + delta.delta[len(known) :]
        sure = len(pending) - _num_unsure(pending, self._stops)
        self._held = pending[sure:]
        if sure:
            yield replace(delta, delta=pending[:sure], offset=len(self._text))
            self._text += pending[:sure]

    def _known(self, offset: int) -> str:
        """What there is of the text from there on. Raises Gap where it does not reach so far."""
        if offset > len(self._text) + len(self._held):
            raise Gap
        if offset >= len(self._text):
            return self._held[offset - len(self._text) :]
        return self._text[offset:] + self._held

    def _end(self, done: ResponseDone) -> Iterator[ResponseEvent]:
        if self.goes_on and done.reason == SERVER_SHUTDOWN:
            self.partial, self._held = done, ""
            return
        text = self._text + self._held
        if not done.output_text.startswith(text):
            raise ProtocolError(_ANOTHER_TEXT)
        if len(done.output_text) > len(text):
            raise Gap
        self.ended = True
        yield from self._rest(done)
        yield done

    def _rest(self, done: ResponseDone) -> Iterator[ResponseEvent]:
        """What of the final text was not handed on."""
        rest = done.output_text[len(self._text) :]
        if rest:
            assert self.response is not None, "it has begun"
            before = max(self.place, done.sequence - 1)
            yield OutputTextDelta(self.response, rest, before, before, len(self._text))
            self._text, self._held = done.output_text, ""


def _agree(known: str, delta: str) -> bool:
    """Whether two texts are the same as far as both go."""
    shared = min(len(known), len(delta))
    return known[:shared] == delta[:shared]


def _num_unsure(text: str, stops: Sequence[str]) -> int:
    """Of how many characters at its end it is not sure that the answer has them."""
    whole = text.rstrip(_REPLACEMENT)
    begun = (
        length
        for stop in stops
        for length in range(1, min(len(stop), len(whole) + 1))
        if stop.startswith(whole[-length:])
    )
    return len(text) - len(whole) + max(begun, default=0)


_ANOTHER_TEXT = "the server goes on with another text than it had sent; /regen asks for it again"
