"""A download's progress: a bar on a terminal, a few lines elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.chat_cli.model_download import ReportProgress, fetch, find_or_fetch
from radixchat.chat_cli.notes import Notes
from radixchat.server.protocol import ModelLoadError
from radixchat.tests.chat_cli.consoles import Recording, console


class Arriving:
    """Only for the look of the progress: a model that arrives in a hundred pieces."""

    def __init__(self, total: int | None, *, fails: bool = False) -> None:
        self._total = total
        self._fails = fails

    def find(self, name: str) -> Path | None:
        return Path("/there") if name == "installed" else None

    def pull(self, name: str, progress: ReportProgress) -> Path:
        for piece in range(1, 101):
            progress(piece * 1000, self._total)
        if self._fails:
            raise ModelLoadError("the checksum is wrong")
        return Path("/models") / name


def shown(store: Arriving, *, terminal: bool) -> str:
    stream = Recording(terminal=terminal)
    errors = console(stream)
    assert fetch(store, "m\x1b[2J", errors, Notes(errors)).name == "m\x1b[2J"
    return stream.getvalue()


def test_lines() -> None:
    """A pipe gets a line at the start and one per quarter."""
    assert shown(Arriving(100_000), terminal=False).splitlines() == [
        "note: fetching m␛[2J",
        "note: m␛[2J: 25 % of 0.1 MB",
        "note: m␛[2J: 50 % of 0.1 MB",
        "note: m␛[2J: 75 % of 0.1 MB",
        "note: m␛[2J: 100 % of 0.1 MB",
    ]


def test_unknown_total() -> None:
    """Without a total there is nothing to say but the start."""
    assert shown(Arriving(None), terminal=False) == "note: fetching m␛[2J\n"


def test_bar() -> None:
    """A terminal gets a bar that vanishes."""
    output = shown(Arriving(100_000), terminal=True)
    assert "100.0/100.0 kB" in output
    assert output.endswith("\x1b[2K")


def test_failure() -> None:
    """What the store raises comes through, also out of a bar."""
    for terminal in (True, False):
        errors = console(Recording(terminal=terminal))
        with pytest.raises(ModelLoadError, match="checksum"):
            fetch(Arriving(100_000, fails=True), "m", errors, Notes(errors))


def test_installed() -> None:
    """What is there is not fetched, and nothing is said."""
    stream = Recording()
    errors = console(stream)
    assert find_or_fetch(Arriving(None), "installed", errors, Notes(errors)) == Path("/there")
    assert find_or_fetch(Arriving(None), "m", errors, Notes(errors)) == Path("/models/m")
    assert stream.getvalue() == "note: fetching m\n"
