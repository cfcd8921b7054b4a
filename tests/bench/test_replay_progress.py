"""The bar of a replay."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from radixchat.bench import replay_progress
from radixchat.bench.replay_progress import progress_on, unwatched
from radixchat.bench.trace import Trace, TraceError, open_trace
from radixchat.tests.bench.trace_files import growing_chats, trace_file


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Six requests and a signal."""
    lines = [*growing_chats(3, 2), {"event": "closed", "conversation": "0"}]
    return open_trace(trace_file(tmp_path / "trace.jsonl", lines))


@pytest.mark.parametrize("requests", [None, 6])
@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["file", "terminal"])
def test_nothing_is_lost_on_the_way(
    trace: Trace, stream: io.StringIO, requests: int | None
) -> None:
    """Every item of the trace comes through, in order; a file is written nothing."""
    with progress_on(stream) as watch:
        times = [item.time for item in watch("reading", trace, requests)]
    assert times == [item.time for item in trace]
    assert len(times) == 7
    assert bool(stream.getvalue()) == stream.isatty()


def test_it_shows_what_runs(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the pass and how far it is, up to all and never beyond."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(replay_progress, "_REDRAW_SECONDS", 0.0)
    terminal = Terminal()
    with progress_on(terminal) as watch:
        list(watch("ours lru 5M", trace, 6))
    assert "ours lru 5M" in terminal.getvalue()
    shares = [int(share) for share in re.findall(r"(\d+) %", terminal.getvalue())]
    assert shares == sorted(shares)
    assert {0, 50, 100} <= set(shares) <= set(range(101))


def test_it_is_gone_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor is shown again, whatever ends the pass."""
    monkeypatch.setenv("TERM", "xterm")
    path = trace_file(tmp_path / "trace.jsonl", [{"tokens": [1]}, {"tokens": "one"}])
    terminal = Terminal()
    with pytest.raises(TraceError), progress_on(terminal) as watch:
        list(watch("reading", open_trace(path), None))
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")


def test_nobody_watches_a_closed_stream() -> None:
    """Python has none where a shell closed it."""
    with progress_on(None) as watch:
        assert watch is unwatched
