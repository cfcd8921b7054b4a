"""Token-id traces: one line a request or a signal, its prompt as exact token ids.

    {"tokens": [1, 2, 3], "output": [4, 5], "time": 0.5, "conversation": "a", "turn": 1}
    {"event": "closed", "conversation": "a", "time": 9.0}

    tokens         the whole prompt, 1 id or more, each 0 to 2**31 - 1; also called prompt_tokens,
                   prompt_token_ids or input_ids
    output         ids of the answer, may be absent; also called output_tokens or output_ids
    time           seconds, or an ISO 8601 date; also called timestamp; on every line or on none
    conversation   text or a whole number, may be absent; also called conversation_id, session,
                   session_id or chat_id
    turn           1, 2, … of the conversation; 0 or absent: unknown
    superseded     this request replaces what its conversation had from this position on (an
                   answer again: the length of the prompt; an edited question: where it begins)
    event          queued, connected, away, disconnected, typing or closed

Owns that form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from radixchat.bench.trace_clock import TraceClock
from radixchat.bench.trace_item import TraceItem, TraceRequest, TraceSignal
from radixchat.bench.trace_line import CONVERSATION_FIELDS, TraceLine, shown
from radixchat.radix.use import Signal

TOKEN_FIELDS = ("tokens", "prompt_tokens", "prompt_token_ids", "input_ids")
OUTPUT_FIELDS = ("output", "output_tokens", "output_ids")
# What a replay cannot find out for itself: it begins and ends requests, and none ever waits.
EVENTS = tuple(s for s in Signal if s not in (Signal.STARTED, Signal.FINISHED))


@dataclass(frozen=True, slots=True)
class TokenReader:
    """Lines to requests and signals; a unit is a token."""

    keep_replies: bool
    namespace_by: str | None

    def read(self, lines: Iterable[TraceLine]) -> Iterator[TraceItem]:
        """What the lines say, in order; raises TraceError at a damaged one."""
        clock = TraceClock()
        requests = 0
        for line in lines:
            elapsed = clock.elapsed(line, line.seconds())
            time = float(requests) if elapsed is None else elapsed
            if "event" in line.fields:
                yield self._signal(line, time)
            else:
                yield self._request(line, time)
                requests += 1

    def _request(self, line: TraceLine, time: float) -> TraceRequest:
        name = line.first_of(TOKEN_FIELDS)
        prompt = line.token_ids(name or "tokens")
        if not len(prompt):
            raise line.error(f"{name} is empty; a prompt has at least one token")
        output_name = line.first_of(OUTPUT_FIELDS)
        output = np.empty(0, np.int32) if output_name is None else line.token_ids(output_name)
        namespace = line.namespace(self.namespace_by)
        conversation = line.conversation(namespace)
        superseded = line.optional_integer("superseded", 0, len(prompt))
        if superseded is not None and conversation is None:
            raise line.error("superseded needs a conversation, whose branch it is")
        return TraceRequest(
            prompt=prompt,
            num_tokens=len(prompt),
            output=output if self.keep_replies else output[:0],
            time=time,
            namespace=namespace,
            conversation=conversation,
            turn=line.optional_integer("turn", 0) or 0,
            superseded=superseded,
        )

    def _signal(self, line: TraceLine, time: float) -> TraceSignal:
        event = line.fields["event"]
        if event not in EVENTS:
            raise line.error(f"event is {shown(event)}; one of {', '.join(EVENTS)}")
        conversation = line.conversation(line.namespace(self.namespace_by))
        if conversation is None:
            raise line.error(f"an event needs one of {', '.join(CONVERSATION_FIELDS)}")
        return TraceSignal(time, conversation, Signal(event))
