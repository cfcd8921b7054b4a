"""Whatever a file holds, a trace gives valid items or a TraceError with a line of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixchat.bench.trace import FORMATS, TraceError, TraceRequest, TraceSignal, open_trace
from radixchat.tests.bench.traces import chat

GOOD: list[dict[str, Any]] = [
    {"timestamp": 3, "input_length": 600, "hash_ids": [1, 2], "conversation": "a", "turn": 1},
    {"messages": chat("a", "b", "c"), "time": 3, "id": "x"},
    {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
    {"tokens": [1, 2, 3], "output": [4, 5], "time": 3, "conversation": "a", "superseded": 1},
    {"event": "closed", "conversation": "a", "time": 3},
]

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from(["user", "assistant", "closed", "text", "2026-01-01", 2**31, 2**63]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "content", "from", "value", "text", "type", "tool_calls"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good line with one value or one stretch of bytes changed."""
    line = draw(st.sampled_from(GOOD))
    field = draw(st.sampled_from([*line, "turn", "tenant", "messages", "hash_ids", "tokens"]))
    value = draw(VALUES)
    if isinstance(line.get(field), list) and draw(st.booleans()):
        value = [*line[field], value]
    raw = json.dumps(line | {field: value}).encode()
    if draw(st.booleans()):
        start = draw(st.integers(0, len(raw)))
        raw = raw[:start] + draw(st.binary(max_size=3)) + raw[start + draw(st.integers(0, 9)) :]
    return raw


def check(path: Path, chosen: dict[str, Any]) -> None:
    last = 0.0
    try:
        for item in open_trace(path, **chosen):
            assert item.time >= last
            last = item.time
            assert isinstance(item, TraceRequest | TraceSignal)
            if isinstance(item, TraceRequest):
                assert item.prompt.dtype == item.output.dtype == np.int32
                assert item.num_tokens >= len(item.prompt) >= 1
                assert min(item.prompt) >= 0
                assert item.turn >= 0
                assert item.superseded is None or 0 <= item.superseded <= len(item.prompt)
                assert ("namespace_by" in chosen) == bool(item.namespace)
    except TraceError as error:
        told = error
    else:
        return
    assert told.path == str(path)
    assert 0 <= told.line <= path.read_bytes().count(b"\n") + 1
    str(told).encode()  # it can be shown


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "t"


SETTINGS = st.fixed_dictionaries(
    {"format": st.sampled_from(["auto", *FORMATS]), "concurrency": st.integers(1, 3)},
    optional={
        "namespace_by": st.sampled_from(["tenant", "conversation", "id"]),
        "last_turn": st.booleans(),
    },
)


@given(
    st.lists(damaged() | st.sampled_from(GOOD).map(lambda d: json.dumps(d).encode()), max_size=4),
    SETTINGS,
)
@settings(max_examples=200)
def test_a_damaged_line_is_told_or_means_something(
    path: Path, lines: list[bytes], chosen: dict[str, Any]
) -> None:
    """Never another exception, never an item that a cache could not take."""
    path.write_bytes(b"\n".join(lines))
    check(path, chosen)


@given(st.binary(max_size=40), st.sampled_from([b"", b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"BZh9"]))
def test_any_bytes_are_told(path: Path, content: bytes, magic: bytes) -> None:
    """Also those that look packed."""
    path.write_bytes(magic + content)
    check(path, {})
