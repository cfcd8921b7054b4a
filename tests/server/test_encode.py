"""A response's events on the wire: OpenAI's names, order and numbers; ours for who asks."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.server.encode import Encoder
from radixchat.server.event_reader import ProtocolError, response_event, response_id_of
from radixchat.server.protocol import (
    OutputTextDelta,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseSnapshot,
)
from radixchat.server.wire_value import wire_json
from radixchat.tests.server.wire_events import (
    CONVERSATION,
    CREATED,
    LOGPROBS,
    MISS,
    MODEL,
    RESPONSE,
    STATES,
    answer,
    done,
    every_kind,
)


def encoded(
    events: list[ResponseEvent], *, extensions: bool = True, after: int = -1, **how: Any
) -> list[dict[str, Any]]:
    encoder = Encoder("main", extensions, MODEL, after=after, **how)
    sent = [frame for event in events for frame in encoder.events(event)]
    received: list[dict[str, Any]] = [json.loads(wire_json(frame)) for frame in sent]
    return received


def types(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["type"].removeprefix("response.") for frame in frames]


def test_an_answer_has_openais_events_in_openais_order() -> None:
    """Numbered without a hole, each on its lane."""
    frames = encoded(answer(["Hé", "llo"]), extensions=False)
    assert types(frames) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [frame["sequence_number"] for frame in frames] == list(range(10))
    assert {frame["stream_id"] for frame in frames} == {"main"}
    assert [frame["x"]["offset"] for frame in frames[4:6]] == [0, 2]
    item = frames[-1]["response"]["output"][0]
    assert item["content"][0]["text"] == frames[6]["text"] == "Héllo"
    assert {frame["item_id"] for frame in frames[3:8]} == {item["id"]}


def test_without_a_lane_no_event_has_one() -> None:
    """As over HTTP."""
    frames = Encoder(None, False, MODEL).events(CREATED)
    assert all("stream_id" not in frame for frame in frames)


@pytest.mark.parametrize(
    ("end", "type_", "status"),
    [
        ({}, "completed", "completed"),
        ({"status": "incomplete", "reason": "max_output_tokens"}, "incomplete", "incomplete"),
        ({"status": "incomplete", "reason": "interrupted"}, "incomplete", "cancelled"),
    ],
)
def test_every_end_is_one_that_openai_knows(end: dict[str, Any], type_: str, status: str) -> None:
    """What a person ended has OpenAI's status for it, in an event that it has."""
    last = encoded(answer(["a"], **end))[-1]
    assert last["type"] == f"response.{type_}"
    assert last["response"]["status"] == status
    expected = end.get("reason")
    details = last["response"]["incomplete_details"]
    assert details == (None if expected is None else {"reason": expected})


def test_what_ends_without_text_has_no_item() -> None:
    """A warm-up, a failure, and what was cancelled before its first token: events 0, 1 and 2."""
    for kind in ("warm-up", "failed", "cancelled at once"):
        frames = encoded(every_kind()[kind])
        assert [frame["sequence_number"] for frame in frames] == [0, 1, 2], kind
        assert frames[-1]["response"]["output"] == []
    assert types(encoded(answer([])))[2:4] == ["output_item.added", "content_part.added"]


def test_a_failure_has_openais_code_and_ours() -> None:
    """Its enumeration is closed; what ours says and counts stands beside."""
    error = encoded(every_kind()["failed"])[-1]["response"]["error"]
    assert error == {
        "code": "server_error",
        "message": "the engine has stopped; the server's log says how",
        "x_code": "engine_failed",
        "x_details": {"step": 3},
    }


def test_usage_has_all_of_openais_fields() -> None:
    """Those that its type requires, and what was guessed."""
    usage = encoded(answer(["a"]))[-1]["response"]["usage"]
    assert usage["input_tokens_details"] == {"cached_tokens": 8, "cache_write_tokens": 4}
    assert usage["output_tokens_details"]["reasoning_tokens"] == 0
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] == 13


def test_states_are_for_those_who_said_hello_and_have_no_number() -> None:
    """A plain client never sees them, and no number is missing for it."""
    events = [CREATED, *STATES[:2], *answer(["a"])[1:]]
    plain = encoded(events, extensions=False)
    assert [frame["sequence_number"] for frame in plain] == list(range(9))
    ours = [frame for frame in encoded(events) if "sequence_number" not in frame]
    assert types(ours) == ["prefill.progress", "cache"]
    assert types(encoded(events, progress=False)).count("prefill.progress") == 0


def test_the_segments_of_a_prompt_say_where_each_came_from() -> None:
    """Half-open spans of tokens; what the cache lacked, and why."""
    (frame,) = Encoder("main", True, MODEL).events(STATES[1])
    assert frame["segments"] == [
        {"from": 0, "to": 8, "state": "memory", "message": "msg_system"},
        {"from": 8, "to": 10, "state": "computed", "message": None},
    ]
    assert (frame["cached_tokens"], frame["computed_tokens"]) == (8, 2)
    assert frame["divergence"]["reason"] == "changed"


def test_the_reply_names_the_event_that_asked() -> None:
    """To a client that said hello; a plain one did not ask to be told."""
    assert encoded([CREATED], in_reply_to="e1")[0]["in_reply_to"] == "e1"
    assert "in_reply_to" not in encoded([CREATED], in_reply_to="e1", extensions=False)[0]


def test_merged_deltas_say_so() -> None:
    """The number is the last one's, the first one's stands beside."""
    merged = OutputTextDelta(RESPONSE, "Hello", 8, 4, 0)
    delta = encoded([CREATED, merged])[-1]
    assert delta["sequence_number"] == 8
    assert delta["x"] == {"offset": 0, "first_sequence_number": 4}


def test_a_snapshot_replaces_the_text_or_is_one_delta() -> None:
    """Whoever knows of snapshots gets one; anybody else the whole text from its beginning."""
    snapshot = ResponseSnapshot(RESPONSE, 6, "Hello", "in_progress")
    (_, _, ours) = encoded([CREATED, snapshot])
    assert (ours["type"], ours["output_text"]) == ("response.snapshot", "Hello")
    plain = encoded([CREATED, snapshot, done("Hello", 7)], extensions=False)
    assert types(plain)[2:5] == ["output_item.added", "content_part.added", "output_text.delta"]
    assert plain[4]["x"] == {"offset": 0, "first_sequence_number": 4}
    assert [frame["sequence_number"] for frame in plain[4:]] == [6, 7, 8, 9, 10]


def test_after_an_extended_snapshot_the_item_is_not_opened_again() -> None:
    """The rest of the log follows it: numbers grow."""
    snapshot = ResponseSnapshot(RESPONSE, 6, "Hello", "in_progress")
    frames = encoded([CREATED, snapshot, done("Hello", 7)], after=3)
    assert types(frames) == [
        "snapshot",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


@given(st.lists(st.text(min_size=1, max_size=3), max_size=6), st.integers(-1, 16))
def test_a_reader_gets_what_comes_after_its_number(texts: list[str], after: int) -> None:
    """Exactly the rest of what a reader from the beginning gets."""
    whole = encoded(answer(texts))
    assert encoded(answer(texts), after=after) == [
        frame for frame in whole if frame["sequence_number"] > after
    ]


@pytest.mark.parametrize("kind", every_kind())
def test_a_client_reads_the_values_that_were_sent(kind: str) -> None:
    """Each field that a terminal client shows, from the socket as from the process."""
    events = every_kind()[kind]
    frames = encoded(events, token_ids=True)
    read = [event for frame in frames if (event := response_event(frame)) is not None]
    assert [type(event) for event in read] == [type(event) for event in events]
    for got, sent in zip(read, events, strict=True):
        match got, sent:
            case ResponseCreated(), ResponseCreated():
                plain = replace(sent.options, top_logprobs=None, response_format=None, seed=None)
                assert got == replace(sent, options=plain)
            case ResponseDone(), ResponseDone():
                assert replace(got, logprobs=None) == replace(sent, logprobs=None, error=got.error)
                assert (got.error is None) == (sent.error is None)
                if got.error and sent.error:
                    assert (got.error.code, got.error.message, got.error.details) == (
                        sent.error.code,
                        sent.error.message,
                        sent.error.details,
                    )
            case _:
                assert got == sent
    assert {response_id_of(frame) for frame in frames} == {RESPONSE}


def test_logprobs_are_numbers_and_lists() -> None:
    """As OpenAI's types want them: no null for bytes, no infinity."""
    end = encoded(answer(["Hé"], logprobs=LOGPROBS))[-1]
    (first, last) = end["response"]["output"][0]["content"][0]["logprobs"]
    assert first["top_logprobs"] == [{"token": "Ho", "bytes": [72, 111], "logprob": -1.5}]
    assert (last["bytes"], last["logprob"]) == ([], -9999.0)
    read = response_event(end)
    assert isinstance(read, ResponseDone)
    assert read.logprobs is not None
    assert read.logprobs[0] == LOGPROBS[0]


def test_the_conversation_is_told_where_it_is_one() -> None:
    """A chain of responses by their ids has none that a list shows; ours is told all the same."""
    response = encoded(every_kind()["format"])[0]["response"]
    assert response["conversation"] is None
    assert response["x"]["conversation"] == CONVERSATION
    assert response["previous_response_id"] == "resp_00"
    assert response["text"]["format"]["schema"] == {"type": "object"}
    assert response["truncation"] == "auto"


@pytest.mark.parametrize("kind", [kind for kind in every_kind() if kind.startswith("miss")])
def test_a_miss_has_openais_word_and_ours(kind: str) -> None:
    """Where it has none, "unavailable"; the tokens are told in both."""
    response = encoded(every_kind()[kind])[-1]["response"]
    reason = kind.removeprefix("miss: ")
    assert response["x_cache"]["reason"] == reason
    openais = {
        "cold": ("comparison_response_not_found", None),
        "template": ("cache_miss", "input_changed"),
        "namespace": ("cache_miss", "prompt_cache_key_changed"),
        "model": ("cache_miss", "model_changed"),
        "truncated": ("cache_miss", "context_compacted"),
    }
    told = response["prompt_cache_diagnostics"]
    assert (told["type"], told.get("reason")) == openais.get(reason, ("unavailable", None))


def test_a_hit_is_told() -> None:
    """Nothing was missed, and something was there."""
    response = encoded(answer(["a"]))[-1]["response"]
    assert response["prompt_cache_diagnostics"] == {"type": "cache_hit"}
    assert response["x_cache"] == {"source": "memory", "reason": None}
    missed = encoded(answer(["a"], miss=MISS))[-1]["response"]["x_cache"]
    assert (missed["index"], missed["expected_text"], missed["got_text"]) == (3, "old", "new")


def test_an_event_that_cannot_be_read_is_the_servers_fault() -> None:
    """A client says which, and does not stumble over a missing field; unknown types are ignored."""
    with pytest.raises(ProtocolError, match=r"'response\.completed'"):
        response_event({"type": "response.completed", "response": {}})
    assert response_event({"type": "response.something_new"}) is None
    assert response_id_of({"type": "server.hello"}) is None


def test_a_client_needs_the_standard_library_only() -> None:
    """To build what it sends and to read what comes: no torch, no validation, no server."""
    program = (
        "import sys, radixchat.server.event_reader, radixchat.server.wire_client_events\n"
        "import radixchat.server.wire_session\n"
        "print(*{name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    foreign = {"torch", "numpy", "pydantic", "starlette", "websockets", "sqlite_utils", "uvicorn"}
    assert "radixchat" in ran.stdout.split()
    assert not foreign & set(ran.stdout.split())
