"""One line of a trace: a JSON object whose fields are taken out checked, or not at all.

Owns what a field may hold and how a wrong one is reported. Knows no format: which fields there
are is said by `trace_blocks.py`, `trace_chats.py` and `trace_tokens.py`. A field that is null
counts as absent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from radixchat.bench.trace_item import TraceError

MAX_INT32 = 2**31 - 1
CONVERSATION_FIELDS = ("conversation", "conversation_id", "session", "session_id", "chat_id")
TIME_FIELDS = ("time", "timestamp")
# The end of the year 9999, the last that a date can say. A larger number is of another unit.
MAX_SECONDS = 253_402_300_800


@dataclass(frozen=True, slots=True, eq=False)
class TraceLine:
    """A line of the file `path`; `number` counts from 1, blank lines too.

    Every method raises TraceError, with the line, for a value that is not what was asked for.
    """

    path: str
    number: int
    fields: Mapping[str, Any]

    def error(self, reason: str) -> TraceError:
        """The error that this line is damaged."""
        return TraceError(self.path, self.number, reason)

    def first_of(self, names: Sequence[str]) -> str | None:
        """The first of these fields that is present."""
        return next((name for name in names if self.fields.get(name) is not None), None)

    def integer(self, name: str, low: int, high: int = MAX_INT32) -> int:
        """A whole number from `low` to `high`."""
        value = self.fields.get(name)
        if type(value) is not int or not low <= value <= high:  # a bool is no number
            raise self.error(f"{name} is {shown(value)}; a whole number, {low} to {high}")
        return value

    def optional_integer(self, name: str, low: int, high: int = MAX_INT32) -> int | None:
        """The same; None where the field is absent."""
        return None if self.fields.get(name) is None else self.integer(name, low, high)

    def array(self, name: str) -> list[Any]:
        """A list, of anything."""
        value = self.fields.get(name)
        if not isinstance(value, list):
            raise self.error(f"{name} is {shown(value)}; a list is needed")
        return value

    def token_ids(self, name: str) -> NDArray[np.int32]:
        """int32 [tokens], each 0 to 2**31 - 1."""
        values = self.array(name)
        if not values:
            return np.empty(0, np.int32)
        # min and max of what may be anything would compare text with numbers: types come first.
        if set(map(type, values)) != {int} or min(values) < 0 or max(values) > MAX_INT32:
            wrong = next(v for v in values if type(v) is not int or not 0 <= v <= MAX_INT32)
            raise self.error(f"{name} has {shown(wrong)}; a token id is 0 to {MAX_INT32}")
        return np.array(values, np.int32)

    def seconds(self, names: Sequence[str] = TIME_FIELDS, per_second: int = 1) -> float | None:
        """The first of these fields in seconds; None where there is none.

        A number of 1/per_second seconds, or a date in ISO 8601, which is UTC unless it says
        otherwise.
        """
        name = self.first_of(names)
        if name is None:
            return None
        value = self.fields[name]
        try:
            stamp = _date(value) if isinstance(value, str) else _number(value) / per_second
        except (ValueError, OverflowError):
            stamp = math.nan
        if not 0 <= stamp <= MAX_SECONDS:
            unit = "seconds" if per_second == 1 else f"1/{per_second} seconds"
            allowed = f"{unit}, 0 to {MAX_SECONDS * per_second}, or an ISO 8601 date"
            raise self.error(f"{name} is {shown(value)}; {allowed}")
        return stamp

    def namespace(self, field: str | None) -> bytes:
        """The namespace that `field` names: b"" for no field, else its value as JSON.

        As JSON, so that the tenants 1 and "1" stay apart, and "" apart from no tenant.
        """
        if field is None:
            return b""
        value = self.fields.get(field)
        if type(value) is not int and not isinstance(value, str):
            raise self.error(
                f"{field} is {shown(value)}; text or a whole number on every line is needed to "
                "tell namespaces apart"
            )
        return json.dumps(value).encode()

    def conversation(self, namespace: bytes, default: object = None) -> str | None:
        """Which conversation it is of, or `default`; the same id of two namespaces is two."""
        name = self.first_of(CONVERSATION_FIELDS)
        value = default if name is None else self.fields[name]
        if value is None:
            return None
        if type(value) is not int and not isinstance(value, str):
            raise self.error(f"{name} is {shown(value)}; text or a whole number is needed")
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self.error(f"{name} is {shown(value)}: half a surrogate pair") from None
        return f"{namespace.decode()}/{text}" if namespace else text


def shown(value: object) -> str:
    """A value as a message shows it: JSON, cut short; what is long or nested by its kind only."""
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if value is None:
        return "missing"
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _number(value: object) -> float:
    if type(value) is not int and type(value) is not float:
        raise ValueError(value)
    return float(value)


def _date(text: str) -> float:
    date = datetime.fromisoformat(text)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
