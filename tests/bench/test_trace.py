"""A trace is found out by its first line, and can be read again and again."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radixchat.bench.trace import TraceError, open_trace
from radixchat.tests.bench.traces import chat, requests_of, write_trace

BLOCKS = {"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [7, 8, 9]}
CHAT = {"messages": chat("Hi", "Hello", "Bye")}
SHAREGPT = {"id": "x", "conversations": [{"from": "human", "value": "Hi"}]}
TOKENS = {"tokens": [1, 2, 3]}
EVENT = {"event": "connected", "conversation": "a"}


@pytest.mark.parametrize(
    ("line", "found", "unit"),
    [
        (BLOCKS, "mooncake", 512),
        (CHAT, "messages", 1),
        (SHAREGPT, "messages", 1),
        (TOKENS, "tokens", 1),
        ({"input_ids": [1]}, "tokens", 1),
        (EVENT, "tokens", 1),
    ],
)
def test_the_first_line_tells_the_format(
    tmp_path: Path, line: dict[str, Any], found: str, unit: int
) -> None:
    """Also where it is not asked for; asked for by name, it is the same."""
    path = write_trace(tmp_path / "t", [line])
    assert open_trace(path).format == found
    trace = open_trace(str(path), found)
    assert (trace.name, trace.format, trace.unit_tokens) == (str(path), found, unit)
    assert len(list(trace)) == (2 if line is CHAT else 1)


def test_a_trace_is_read_again_from_its_start(tmp_path: Path) -> None:
    """Also while another reading is under way."""
    lines = [{"tokens": [n, n + 1]} for n in range(5)]
    trace = open_trace(write_trace(tmp_path / "t", lines))
    half = iter(trace)
    next(half)
    assert [list(r.prompt) for r in requests_of(trace)] == [line["tokens"] for line in lines]
    assert len(list(half)) == 4


def test_what_is_no_trace_is_told(tmp_path: Path) -> None:
    """An empty file, a file of blank lines, and fields that no format has."""
    for content, reason in (
        ("", "t: the trace is empty; it needs one JSON object per line"),
        ("\n \r\n\n", "t: the trace is empty"),
        ('\n{"prompt": "Hi"}\n', 't:2: no trace: its fields are "prompt"; it needs hash_ids'),
    ):
        (tmp_path / "t").write_text(content, encoding="utf-8")
        with pytest.raises(TraceError) as caught:
            open_trace(tmp_path / "t")
        assert str(caught.value).startswith(f"{tmp_path}/{reason}")


def test_an_empty_trace_is_told_in_every_format(tmp_path: Path) -> None:
    """A format that was named does not hide it."""
    (tmp_path / "t").touch()
    for name in ("mooncake", "messages", "tokens"):
        with pytest.raises(TraceError, match="the trace is empty"):
            open_trace(tmp_path / "t", name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "csv"}, "format is 'csv'; allowed: auto, mooncake, messages, tokens"),
        ({"concurrency": 0}, "concurrency is 0; allowed: 1 or more"),
    ],
)
def test_a_setting_out_of_range_is_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    """Before the file is looked for."""
    with pytest.raises(ValueError, match=message):
        open_trace(tmp_path / "nothing", **settings)


def test_standard_input_is_read_as_often_as_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept in a temporary file, which goes with the trace."""
    text = "".join(json.dumps({"tokens": [n, 1]}) + "\n" for n in range(3))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    trace = open_trace("-")
    assert trace.name == "<stdin>"
    assert [len(list(trace)) for _ in range(2)] == [3, 3]
    kept = trace._file._path
    assert kept.exists()
    del trace
    assert not kept.exists()


def test_a_pipe_is_read_as_often_as_a_file(tmp_path: Path) -> None:
    """As a shell's <(zcat …) gives one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"tokens": [1]}\n',))
    writer.start()
    trace = open_trace(pipe)
    writer.join()
    assert [len(list(trace)) for _ in range(2)] == [1, 1]


def test_progress_goes_from_nothing_to_the_whole_file(tmp_path: Path) -> None:
    """In bytes of the file, never backwards."""
    path = write_trace(tmp_path / "t", ({"tokens": [n] * 50} for n in range(2000)))
    seen: list[tuple[int, int]] = []
    trace = open_trace(path)
    assert len(list(trace.items(lambda done, total: seen.append((done, total))))) == 2000
    size = path.stat().st_size
    assert {total for _, total in seen} == {size}
    done = [done for done, _ in seen]
    assert done == sorted(done)
    assert done[0] == 0
    assert done[-1] == size
    assert 3 <= len(done) <= size // 2**16 + 2


def test_namespaces_stay_apart(tmp_path: Path) -> None:
    """Number and text, empty text and none; the same conversation of two tenants is two."""
    tenants = [1, "1", "", "a/b", "a"]
    lines = [{"tokens": [1], "tenant": tenant, "conversation": "c"} for tenant in tenants]
    path = write_trace(tmp_path / "t", lines)
    requests = requests_of(open_trace(path, namespace_by="tenant"))
    assert len({r.namespace for r in requests} | {b""}) == len(tenants) + 1
    assert len({r.conversation for r in requests} | {"c"}) == len(tenants) + 1
    assert {r.namespace for r in requests_of(open_trace(path))} == {b""}


@pytest.mark.parametrize("line", [BLOCKS, CHAT, TOKENS, EVENT])
@pytest.mark.parametrize("tenant", [None, True, 1.5, ["a"]])
def test_a_line_without_its_namespace_is_refused(
    tmp_path: Path, line: dict[str, Any], tenant: object
) -> None:
    """In every format; it would be served from another tenant's cache."""
    path = write_trace(tmp_path / "t", [line | {"tenant": "a"}, line | {"tenant": tenant}])
    with pytest.raises(TraceError, match=r"t:2: tenant is .* whole number on every line"):
        list(open_trace(path, namespace_by="tenant"))


def test_memory_does_not_grow_with_the_trace(tmp_path: Path) -> None:
    """Chats, five at a time: ten times as many need no more, and far less than the file."""
    peaks = []
    for count in (80, 800):
        chats = ({"messages": chat(f"{n} why?", "yes " * 20)} for n in range(count))
        trace = open_trace(write_trace(tmp_path / f"{count}", chats), concurrency=5)
        tracemalloc.start()
        for _ in trace:
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.2 + 2**14
    assert peaks[1] < 2 * 2**16 + 2**16  # the read buffer, and little more


@pytest.mark.shared_data
def test_the_shared_trace(shared_data: Path) -> None:
    """12,031 requests, mean input 12,035 tokens, one block that all of them begin with."""
    trace = open_trace(shared_data / "traces" / "mooncake_conversation.jsonl")
    requests = requests_of(trace)
    assert trace.unit_tokens == 512
    assert len(requests) == 12_031
    assert round(np.mean([r.num_tokens for r in requests])) == 12_035
    assert {int(r.prompt[0]) for r in requests} == {0}
    assert requests[-1].time == pytest.approx(3537, abs=1)
