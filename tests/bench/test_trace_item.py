"""The values of a trace."""

from __future__ import annotations

import pytest

from radixchat.bench.trace_item import TraceError


@pytest.mark.parametrize(
    ("line", "shown"), [(7, "chats.jsonl:7: no JSON"), (0, "chats.jsonl: no JSON")]
)
def test_an_error_begins_with_the_file_and_the_line(line: int, shown: str) -> None:
    """As editors and terminals expect it; a file as a whole has no line."""
    error = TraceError("chats.jsonl", line, "no JSON")
    assert str(error) == shown
    assert (error.path, error.line, error.reason) == ("chats.jsonl", line, "no JSON")
