"""Writes small traces for the tests of their readers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from radixchat.bench.trace import Trace, TraceRequest
from radixchat.bench.trace_line import TraceLine


def write_trace(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    """One object per line."""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def trace_lines(*fields: dict[str, Any]) -> list[TraceLine]:
    """The lines that a file of these objects would have."""
    return [TraceLine("t.jsonl", number, line) for number, line in enumerate(fields, 1)]


def requests_of(trace: Trace) -> list[TraceRequest]:
    """A trace's requests, without the signals."""
    return [item for item in trace if isinstance(item, TraceRequest)]


def chat(*texts: str) -> list[dict[str, str]]:
    """Messages of a user and an assistant, by turns."""
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
