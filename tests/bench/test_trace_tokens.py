"""Token-id traces: what the fields mean, and which values are refused."""

from __future__ import annotations

from typing import Any

import pytest

from radixchat.bench.trace_item import TraceError, TraceRequest, TraceSignal
from radixchat.bench.trace_tokens import TokenReader
from radixchat.radix.use import Signal
from radixchat.tests.bench.traces import trace_lines


def read(*lines: dict[str, Any], keep_replies: bool = True) -> list[TraceRequest | TraceSignal]:
    return list(TokenReader(keep_replies, None).read(trace_lines(*lines)))


@pytest.mark.parametrize("name", ["tokens", "prompt_tokens", "prompt_token_ids", "input_ids"])
@pytest.mark.parametrize("output", ["output", "output_tokens", "output_ids"])
def test_a_request_is_what_the_line_says(name: str, output: str) -> None:
    """Under any of the names that logs use."""
    (request,) = read(
        {name: [0, 2**31 - 1], output: [5], "session_id": 3, "turn": 2, "superseded": 1}
    )
    assert isinstance(request, TraceRequest)
    assert [list(request.prompt), list(request.output)] == [[0, 2**31 - 1], [5]]
    assert (request.num_tokens, request.conversation, request.turn) == (2, "3", 2)
    assert (request.superseded, request.namespace, request.time) == (1, b"", 0.0)


def test_replies_can_be_left_out() -> None:
    """As in an engine that keeps the KV of prompts only."""
    (request,) = read({"tokens": [1], "output": [2, 3]}, keep_replies=False)
    assert isinstance(request, TraceRequest)
    assert not len(request.output)


def test_signals_stand_between_requests() -> None:
    """In seconds from the first line; an epoch or a date does as well."""
    items = read(
        {"event": "connected", "conversation": "a", "time": "2026-03-01T12:00:00Z"},
        {"tokens": [1], "conversation": "a", "timestamp": "2026-03-01T13:00:01.5+01:00"},
        {"event": "closed", "conversation": "a", "time": "2026-03-01 12:00:02"},
    )
    assert items[::2] == [
        TraceSignal(0.0, "a", Signal.CONNECTED),
        TraceSignal(2.0, "a", Signal.CLOSED),
    ]
    assert items[1].time == 1.5


def test_without_times_a_request_has_its_number() -> None:
    """And a signal that of the next request."""
    event = {"event": "typing", "conversation": "a"}
    items = read(event, {"tokens": [1]}, event, {"tokens": [1]}, event)
    assert [item.time for item in items] == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"tokens": []}, "tokens is empty; a prompt has at least one token"),
        ({}, "tokens is missing; a list is needed"),
        ({"tokens": 12}, "tokens is 12; a list is needed"),
        ({"tokens": [1, -1]}, "tokens has -1; a token id is 0 to 2147483647"),
        ({"tokens": [1, 2**31]}, "tokens has 2147483648"),
        ({"tokens": [10**100]}, "tokens has 1000.*…;"),
        ({"input_ids": [1, True]}, "input_ids has true"),
        ({"tokens": [1.0]}, "tokens has 1.0"),
        ({"tokens": ["a", 2]}, 'tokens has "a"'),
        ({"tokens": [[1, 2]]}, "tokens has a list of 2"),
        ({"tokens": [1], "output": {}}, "output is an object of 0; a list"),
        ({"tokens": [1], "output": [None]}, "output has missing"),
        ({"tokens": [1], "turn": True}, "turn is true; a whole number, 0 to"),
        ({"tokens": [1], "conversation": 1.5}, "conversation is 1.5; text or a whole number"),
        ({"tokens": [1], "conversation": "\ud800"}, "conversation is .*: half a surrogate pair"),
        ({"tokens": [1], "conversation": "a", "superseded": 2}, "superseded is 2; .* 0 to 1"),
        ({"tokens": [1], "superseded": 1}, "superseded needs a conversation"),
        ({"event": "closed"}, "an event needs one of conversation, conversation_id"),
        ({"event": "opened", "conversation": "a"}, 'event is "opened"; one of queued, connected'),
        ({"event": "started", "conversation": "a"}, 'event is "started"'),
        ({"event": ["closed"], "conversation": "a"}, "event is a list of 1"),
        ({"event": None, "conversation": "a"}, "event is missing"),
    ],
)
def test_a_damaged_line_is_refused(line: dict[str, Any], reason: str) -> None:
    """With its number and the value."""
    with pytest.raises(TraceError, match=rf"^t.jsonl:2: {reason}"):
        read({"tokens": [1]}, line)
