"""What clients send becomes values, and whatever is wrong with it one refusal."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.server.api_error import ApiError
from radixchat.server.decode import (
    MAX_DEPTH,
    MAX_WRONG,
    decode_body,
    decode_client_event,
    decode_value,
)
from radixchat.server.wire_client_events import (
    ClientEvent,
    ClientHello,
    Ping,
    PrefillDraft,
    ResponseCreate,
    ResponseResume,
    ResumeExtras,
    SessionList,
)
from radixchat.server.wire_input import ContentPart, Extras, InputItem, ResponseRequest
from radixchat.server.wire_value import wire_dict, wire_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
TYPES = [cls.__dataclass_fields__["type"].default for cls in get_args(ClientEvent)]
FIELDS = sorted({name for cls in get_args(ClientEvent) for name in cls.__dataclass_fields__})


def refusal(text: str | bytes, *, strict: bool = False) -> ApiError:
    with pytest.raises(ApiError) as raised:
        decode_client_event(text, strict=strict)
    return raised.value


def test_an_event_is_read_field_by_field() -> None:
    """Texts, lists of items with parts, objects within objects, and names that Python reserves."""
    event = decode_client_event(
        '{"type":"response.create","event_id":"e","stream_id":"main","temperature":1,'
        '"input":[{"role":"user","content":[{"type":"input_text","text":"é"}]}],"x":{"seed":3}}'
    )
    assert event == ResponseCreate(
        event_id="e",
        stream_id="main",
        temperature=1.0,
        input=(InputItem(role="user", content=(ContentPart(type="input_text", text="é"),)),),
        x=Extras(seed=3),
    )
    resume = '{"type":"response.resume","response_id":"r","x":{"continue":true}}'
    assert decode_client_event(resume) == ResponseResume(
        response_id="r", x=ResumeExtras(continue_=True)
    )


@pytest.mark.parametrize("cls", get_args(ClientEvent))
def test_every_event_survives_being_sent(cls: Any) -> None:
    """What a client builds is what the server reads, for each class, as text and as bytes."""
    required = {
        field.name: 3 if field.type == "Annotated[int, Bound(ge=0)]" else "some_id"
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING
    }
    event = cls(event_id="e1", **required)
    text = wire_json(wire_dict(event))
    assert decode_client_event(text) == event
    assert decode_client_event(text.encode(), strict=True) == event


@pytest.mark.parametrize(
    ("text", "code", "param"),
    [
        ("", "invalid_json", None),
        ("nul", "invalid_json", None),
        (b"\xff\xfe", "invalid_json", None),
        ('{"type":"ping","t":"\\ud800"}', "invalid_json", None),
        ('{"type":"ping"} x', "invalid_json", None),
        ("[]", "invalid_value", None),
        ("3", "invalid_value", None),
        ("{}", "missing_required_parameter", "type"),
        ('{"type":"nope"}', "invalid_value", "type"),
        ('{"type":["ping"]}', "invalid_value", "type"),
        ('{"type":"response.cancel"}', "missing_required_parameter", "response_id"),
        ('{"type":"response.create","stream_id":"a b"}', "invalid_stream_id", "stream_id"),
        ('{"type":"response.create","stream_id":""}', "invalid_stream_id", "stream_id"),
        ('{"type":"response.create","temperature":"1"}', "invalid_value", "temperature"),
        ('{"type":"response.create","temperature":NaN}', "invalid_value", "temperature"),
        (
            '{"type":"response.create","max_output_tokens":1.5}',
            "invalid_value",
            "max_output_tokens",
        ),
        ('{"type":"response.create","store":1}', "invalid_value", "store"),
        ('{"type":"response.create","truncation":"some"}', "invalid_value", "truncation"),
        ('{"type":"response.create","input":3}', "invalid_value", "input"),
        ('{"type":"response.create","input":[{"role":1}]}', "invalid_value", "input[0].role"),
        (
            '{"type":"response.create","input":[{"role":"user","content":[{"type":"t","text":1}]}]}',
            "invalid_value",
            "input[0].content[0].text",
        ),
        ('{"type":"response.create","conversation":{"id":1}}', "invalid_value", "conversation.id"),
        ('{"type":"response.create","x":{"n":0}}', "invalid_value", "x.n"),
        ('{"type":"response.create","x":{"n":99}}', "invalid_value", "x.n"),
        ('{"type":"response.create","x":{"stop":["a",1]}}', "invalid_value", "x.stop[1]"),
        ('{"type":"response.create","metadata":{"a":1}}', "invalid_value", "metadata.a"),
        (
            json.dumps({"type": "session.create", "metadata": {str(n): "" for n in range(17)}}),
            "invalid_value",
            "metadata",
        ),
        ('{"type":"session.list","limit":1001}', "invalid_value", "limit"),
        ('{"type":"ping","event_id":""}', "invalid_value", "event_id"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    text: str | bytes, code: str, param: str | None
) -> None:
    """A code to act on and the field's path; status 400."""
    error = refusal(text)
    assert (error.status, error.code, error.param) == (400, code, param)
    assert error.type == "invalid_request_error"


def test_the_sentence_quotes_the_value_that_is_wrong() -> None:
    """Short values as they are, long ones shortened; of an unknown type, those that are known."""
    message = refusal('{"type":"response.create","temperature":"hot"}').message
    assert message == "temperature is 'hot': Input should be a valid number"
    long = refusal('{"type":"response.create","temperature":"%s"}' % ("x" * 1000)).message
    assert len(long) < 200
    assert "'ping'" in refusal('{"type":"pong"}').message


def test_a_refusal_has_the_names_of_the_event_that_it_refuses() -> None:
    """event_id and stream_id, also where they are what is wrong; what is no name is not sent."""
    error = refusal('{"type":"response.create","event_id":"e1","stream_id":"a b","input":"x"}')
    assert (error.event_id, error.stream_id) == ("e1", "a b")
    assert refusal('{"type":"nope","event_id":"e2"}').event_id == "e2"
    assert refusal('{"type":"nope","event_id":7}').event_id is None
    assert refusal('{"type":"nope","event_id":"%s"}' % ("x" * 300)).event_id is None


def test_fields_that_nobody_knows_are_ignored_unless_strict() -> None:
    """At every level: newer clients may say more than this server knows."""
    text = '{"type":"response.create","input":"a","new":1,"x":{"newer":2}}'
    assert decode_client_event(text) == ResponseCreate(input="a", x=Extras())
    error = refusal(text, strict=True)
    assert (error.code, error.param) == ("unknown_parameter", "x.newer")
    assert refusal('{"type":"ping","new":1}', strict=True).param == "new"


def test_a_body_is_read_as_an_event_is() -> None:
    """By its class; the same refusals."""
    assert decode_body(ResponseRequest, b'{"input":"a"}') == ResponseRequest(input="a")
    with pytest.raises(ApiError, match="store is 'yes'"):
        decode_body(ResponseRequest, b'{"store":"yes"}')
    with pytest.raises(ApiError, match="this is no JSON"):
        decode_body(ResponseRequest, b"")


def test_the_parameters_of_a_query_are_texts() -> None:
    """Numbers and booleans are read from them."""
    assert decode_value(SessionList, {"limit": "5", "after": "c"}) == SessionList(
        limit=5, after="c"
    )
    with pytest.raises(ApiError) as raised:
        decode_value(SessionList, {"limit": "many"})
    assert (raised.value.code, raised.value.param) == ("invalid_value", "limit")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_depth_is_bounded(opening: str) -> None:
    """What is deeper is refused before it is parsed; as deep as allowed is read."""
    closing = {"[": "]", '{"a":': "}"}[opening]
    deepest = opening * (MAX_DEPTH - 3) + "1" + closing * (MAX_DEPTH - 3)
    create = '{"type":"response.create","input":"","tools":[{"a":'
    decode_client_event(create + deepest + "}]}")
    assert refusal(create + opening + deepest + closing + "}]}").code == "invalid_json"
    error = refusal(opening * (MAX_DEPTH + 1) + "1" + closing * (MAX_DEPTH + 1))
    assert error.code == "invalid_json"
    assert str(MAX_DEPTH + 1) in error.message
    # Brackets in texts are no depth, nor are those beside each other.
    decode_client_event('{"type":"ping","t":"%s"}' % ('[{\\"[' * 100))
    many = ",".join(['{"role":"user","content":[]}'] * 100)
    decode_client_event(f'{{"type":"response.create","input":[{many}]}}')


MIB = 1 << 20


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * MIB,
        '"' + "\\" * (2 * MIB - 1),
        '"' * MIB,
        "[" * MIB,
        "[" + "[]," * (MIB // 4),
        "9" * MIB,
        '{"type":"ping","t":' + "9" * 5000 + "}",
        '{"type":"response.create","metadata":{'
        + ",".join(f'"{i}":1' for i in range(60_000))
        + "}}",
        '{"type":"response.create","input":[' + "0," * 300_000 + "0]}",
        '{"type":"response.create","input":[{"role":"user","content":['
        + ",".join(['{"type":1}'] * 60_000)
        + "]}]}",
    ],
    ids=[
        "escaped quotes",
        "backslashes",
        "quotes",
        "deep",
        "wide",
        "digits",
        "a long number",
        "metadata",
        "items",
        "parts",
    ],
)
def test_work_is_linear_in_the_text(text: str) -> None:
    """A MiB of the worst is refused within seconds (quadratic work would take hours)."""
    began = time.perf_counter()
    error = refusal(text)
    assert time.perf_counter() - began < 20
    assert len(json.dumps(error.event())) < 2000


def test_of_very_many_wrong_fields_only_the_number_is_told() -> None:
    """They are not looked at one by one."""
    pairs = ",".join(f'"{i}":1' for i in range(MAX_WRONG + 1))
    error = refusal(f'{{"type":"response.create","metadata":{{{pairs}}}}}')
    assert error.message == f"{MAX_WRONG + 1} fields of the message do not fit"


def refused_or_read(text: str | bytes) -> None:
    try:
        sent = wire_dict(decode_client_event(text))
    except ApiError as error:
        sent = error.event()
    json.loads(wire_json(sent))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text(st.characters(), max_size=200))
def test_any_bytes_are_an_event_or_a_refusal(text: str | bytes) -> None:
    """Nothing else is raised, whatever it is."""
    refused_or_read(text)


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5),
    st.booleans(),
)
def test_any_fields_are_an_event_or_a_refusal(
    type_: str, fields: dict[str, Any], cut: bool
) -> None:
    """Of every type; whole texts, and such as end in the middle."""
    text = json.dumps({**fields, "type": type_})
    refused_or_read(text[: len(text) // 2] if cut else text)


def test_defaults_are_what_the_protocol_says() -> None:
    """What is left out of a hello, a list and a draft."""
    assert decode_client_event('{"type":"client.hello"}') == ClientHello(protocol=1)
    assert decode_client_event('{"type":"session.list"}') == SessionList(limit=20)
    assert decode_client_event('{"type":"ping","t":1.5}') == Ping(t=1.5)
    draft = '{"type":"prefill.draft","session_id":"c","revision":1,"text":""}'
    assert decode_client_event(draft) == PrefillDraft(session_id="c", revision=1, text="")
