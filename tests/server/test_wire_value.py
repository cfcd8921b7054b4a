"""Wire values become JSON: names, what is left out, and numbers that JSON does not have."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from radixchat.server.wire_value import wire_dict, wire_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    from_: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    number: float | None
    left_out: str | None = None
    type: str = "outer"
    inner: tuple[Inner, ...] = ()
    pairs: Mapping[str, object] | None = None


def test_the_type_leads_and_what_says_nothing_is_left_out() -> None:
    """A field with null as its default is not sent; one without a default is, null included."""
    assert wire_dict(Outer(number=None)) == {"type": "outer", "number": None, "inner": []}
    assert next(iter(wire_dict(Outer(number=1.0)))) == "type"
    assert wire_dict(Outer(number=1.0, left_out=""))["left_out"] == ""


def test_values_in_values_are_objects() -> None:
    """In lists and mappings too; an underscore at a name's end is Python's."""
    value = Outer(number=1, inner=(Inner(from_=2),), pairs={"a": Inner(from_=3), "b": (True, None)})
    assert wire_dict(value)["inner"] == [{"from": 2}]
    assert wire_dict(value)["pairs"] == {"a": {"from": 3}, "b": [True, None]}


def test_a_frame_is_compact_and_has_no_infinity() -> None:
    """Characters as they are; NaN is no JSON, and a browser would choke on it."""
    assert wire_json({"a": "é", "b": [1]}) == '{"a":"é","b":[1]}'
    with pytest.raises(ValueError, match="JSON"):
        wire_json({"a": math.inf})


def test_half_a_surrogate_pair_is_sent_as_it_came() -> None:
    """No UTF-8 holds it; as an escape it is what the client sent, and comes out the same."""
    for text in ("plain", "größer 漢字 🙂", "\ud800 alone", 'a "quoted" \\ \udfff\n'):
        frame = wire_json({"text": text})
        assert json.loads(frame.encode()) == {"text": text}
