"""How a wire value becomes JSON, and the bounds that its fields state. Standard library only.

A wire value is a frozen dataclass whose fields are named as on the wire; a name that is a word of
Python has an underscore at its end. A field that may be left out has None as its default, and then
is not sent; one without a default is always sent, null included. Knows no validation library:
`Bound` states a field's limits in the form that pydantic asks for, `decode.py` runs it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bound:
    """What a field admits: numbers from `ge` to `le`, a text or list of so many, a pattern.

    The first element of a list that does not fit ends its validation: what is wrong with a million
    others is not collected.
    """

    ge: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        schema = handler(source)
        bounds = dataclasses.asdict(self)
        schema.update({name: bound for name, bound in bounds.items() if bound is not None})
        if schema["type"] in ("tuple", "list"):
            schema["fail_fast"] = True
        return schema


MANY = Bound(max_length=100_000)  # a list of anything that a message of bounded size may hold


@functools.cache
def _fields(cls: Any) -> tuple[tuple[str, str, bool], ...]:
    """Of each field: attribute, name on the wire, whether None leaves it out; `type` leads."""
    fields = sorted(dataclasses.fields(cls), key=lambda field: field.name != "type")
    return tuple((f.name, wire_name(f.name), f.default is None) for f in fields)


def wire_name(attribute: str) -> str:
    """A field's name on the wire."""
    return attribute.rstrip("_")


def wire_dict(value: object) -> dict[str, Any]:
    """A wire value as JSON's objects, lists and atoms."""
    encoded: dict[str, Any] = {}
    cls: Any = type(value)
    for attribute, name, optional in _fields(cls):
        field = getattr(value, attribute)
        if field is not None or not optional:
            encoded[name] = _encoded(field)
    return encoded


def _encoded(value: Any) -> Any:
    match value:
        case None | str() | int() | float():  # bool too
            return value
        case tuple() | list():
            return [_encoded(element) for element in value]
        case Mapping():
            return {key: _encoded(element) for key, element in value.items()}
        case _:
            return wire_dict(value)


def wire_json(value: Mapping[str, Any]) -> str:
    """One frame's text. Raises ValueError of a number that JSON does not have.

    Half of a surrogate pair, which UTF-8 does not have, stays the escape that it came as.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
