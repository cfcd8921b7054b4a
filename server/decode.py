"""What a client sent, as values: `decode_client_event`, `decode_body`. Never anything but ApiError.

Owns the bounds of any JSON that comes in and the sentences about what is wrong with it. Knows no
socket, and not what an event means. Time and memory are linear in the size of the text, which the
edges bound.
"""

from __future__ import annotations

import functools
import json
import re
from itertools import accumulate
from typing import Annotated, Any, TypeVar

from radixchat.server.api_error import ApiError
from radixchat.server.wire_client_events import ClientEvent

T = TypeVar("T")

MAX_DEPTH = 64  # of arrays and objects in each other
MAX_WRONG = 100  # things that are looked at one by one
MAX_QUOTED = 1 << 16  # bytes of a text whose wrong values are quoted
MAX_SHOWN = 80  # characters of a value that a message quotes

# A string, or the rest of the text after a quotation mark that has no other. Possessive: no way
# of matching is tried twice, so time is linear in the text whatever it is.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_DEPTH = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

# pydantic's kinds of errors by OpenAI's codes; others are "invalid_value".
_CODES = {
    "missing": "missing_required_parameter",
    "union_tag_not_found": "missing_required_parameter",
    "unexpected_keyword_argument": "unknown_parameter",
    "json_invalid": "invalid_json",
}


def decode_client_event(text: str | bytes, *, strict: bool = False) -> ClientEvent:
    """One frame of the socket; strict: a field that nobody knows is an error, not ignored.

    Raises ApiError with the event's `event_id` and `stream_id`, where they can be read.
    """
    data = _checked(text)
    try:
        event: ClientEvent = _validate(_client_events(strict), data)
    except ApiError as error:
        error.event_id, error.stream_id = _names(data)
        raise
    return event


def decode_body(kind: type[T], data: bytes, *, strict: bool = False) -> T:
    """The body of an HTTP request; kind: its class. Raises ApiError."""
    body: T = _validate(_adapter(kind, strict), _checked(data))
    return body


def decode_value(kind: type[T], value: object, *, strict: bool = False) -> T:
    """The same of a value that is not JSON, such as the parameters of a query. Raises ApiError."""
    from pydantic import ValidationError

    try:
        decoded: T = _adapter(kind, strict).validate_strings(value)
    except ValidationError as error:
        raise _refusal(error) from None
    return decoded


def _checked(text: str | bytes) -> bytes:
    """The bytes, if nothing in them goes too deep."""
    try:
        data = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError as error:
        raise ApiError(400, "invalid_json", f"the text is not Unicode: {error.reason}") from None
    depth = json_depth(data)
    if depth > MAX_DEPTH:
        message = f"the JSON has {depth} levels of arrays and objects; allowed: {MAX_DEPTH}"
        raise ApiError(400, "invalid_json", message)
    return data


def json_depth(data: bytes) -> int:
    """At least as many levels of arrays and objects as a JSON text has."""
    most = data.count(b"[") + data.count(b"{")
    if most <= MAX_DEPTH:
        return most
    brackets = _STRING.sub(b"", data).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_DEPTH.__getitem__, brackets)), default=0)


def _validate(adapter: Any, data: bytes) -> Any:
    from pydantic import ValidationError

    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        # A wrong value is the whole list, where a text was allowed too.
        raise _refusal(error, quoting=len(data) <= MAX_QUOTED) from None


def _refusal(error: Any, *, quoting: bool = True) -> ApiError:
    """What is told of the first thing that is wrong: of an alternative, its last branch's."""
    if error.error_count() > MAX_WRONG:
        count = error.error_count()
        return ApiError(400, "invalid_value", f"{count} fields of the message do not fit")
    found = error.errors(include_url=False, include_input=quoting)
    tagged = error.title.startswith("tagged")
    field = found[0]["loc"][: 1 + tagged]
    # A field that may be a text or a list of objects has an error of each branch.
    of_it = [entry for entry in found if entry["loc"][: 1 + tagged] == field]
    worst = max(of_it, key=lambda entry: len(entry["loc"]))
    kind, reason = worst["type"], worst["msg"]
    param = _param(worst, tagged=tagged)
    code = _CODES.get(kind, "invalid_value")
    if param is not None and param.endswith("stream_id"):
        code = "invalid_stream_id"
    match code:
        case "invalid_value" if kind == "union_tag_invalid":
            tag, known = worst["ctx"]["tag"], worst["ctx"]["expected_tags"]
            message = f"type is {_shown(tag)}; known are {known}"
        case "invalid_json":
            message = f"this is no JSON: {reason.removeprefix('Invalid JSON: ')}"
        case "missing_required_parameter":
            message = f"{param} is missing; it is required"
        case "unknown_parameter":
            message = f"{param} is no field of this; strict is on"
        case _:
            message = f"{param or 'the message'}{_is(worst)}: {reason}"
    return ApiError(400, code, message, param=param)


def _param(entry: Any, *, tagged: bool) -> str | None:
    """The field's path, without the names of classes that pydantic puts between."""
    if entry["type"].startswith("union_tag"):
        return "type"
    path = entry["loc"][1:] if tagged else entry["loc"]
    shown = ""
    for step in path:
        if isinstance(step, int):
            shown += f"[{step}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", step) and step not in _BRANCHES:
            shown += f".{step}" if shown else step
    return shown or None


# What pydantic calls the alternatives of a field: names of types, which no field has.
_BRANCHES = frozenset(
    {
        *("str", "int", "float", "bool", "constrained-str", "constrained-int"),
        *("ConversationRef", "NamedTool", "ChatFormat", "GrammarFormat"),
    }
)


def _is(entry: Any) -> str:
    return f" is {_shown(entry['input'])}" if "input" in entry else ""


def _shown(value: object) -> str:
    """A value as a message quotes it; of something large only its kind is told."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value if len(value) <= MAX_SHOWN else value[:MAX_SHOWN] + "…")
        case int() | float():
            return str(value)[:MAX_SHOWN]
        case dict():
            return "an object"
        case _:
            return "an array"


def _names(data: bytes) -> tuple[str | None, str | None]:
    """event_id and stream_id of an event that could not be read as a whole."""
    try:
        event = json.loads(data)
    except ValueError:
        return None, None
    if not isinstance(event, dict):
        return None, None
    event_id, stream_id = event.get("event_id"), event.get("stream_id")
    return _short(event_id), _short(stream_id)


def _short(name: object) -> str | None:
    return name if isinstance(name, str) and len(name) <= 256 else None


@functools.cache
def _client_events(strict: bool) -> Any:
    from pydantic import Field

    return _adapter(Annotated[ClientEvent, Field(discriminator="type")], strict)


def _adapter(kind: Any, strict: bool) -> Any:
    return _made(kind, strict)


@functools.cache
def _made(kind: Any, strict: bool) -> Any:
    """pydantic's reader of a class; made when first needed, and kept."""
    from radixchat.server.wire_schema import wire_adapter

    return wire_adapter(kind, strict)
