"""Fetching a model with a progress bar on standard error.

Owns how the progress looks. Knows no source: the model store fetches.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.notes import Notes

ReportProgress = Callable[[int, int | None], None]
_STEPS = 4
"""Lines that a download writes where there is no bar."""


class Models(Protocol):
    """The part of the model store that fetching needs."""

    def find(self, name: str) -> Path | None:
        """The installed model's path."""

    def pull(self, name: str, progress: ReportProgress) -> Path:
        """Fetch and install it; progress gets the bytes done and their total, if known."""


def fetch(store: Models, name: str, console: Console, notes: Notes) -> Path:
    """Pull the model, showing the progress. Raises ModelLoadError."""
    with _progress(name, console, notes) as report:
        return store.pull(name, report)


def find_or_fetch(store: Models, name: str, console: Console, notes: Notes) -> Path:
    """The installed model, fetched first if it is not there. Raises ModelLoadError."""
    return store.find(name) or fetch(store, name, console, notes)


@contextlib.contextmanager
def _progress(name: str, console: Console, notes: Notes) -> Iterator[ReportProgress]:
    title = neutral_line(name)
    if console.is_terminal and not console.is_dumb_terminal:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(title, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    else:
        notes.note(f"fetching {title}")
        yield _Milestones(title, notes)


class _Milestones:
    """Reports a download in a few lines."""

    def __init__(self, title: str, notes: Notes) -> None:
        self._title = title
        self._notes = notes
        self._reached = 0

    def __call__(self, done: int, total: int | None) -> None:
        """A line for each quarter; none while the total is unknown."""
        reached = done * _STEPS // total if total else 0
        if total is not None and reached > self._reached:
            self._reached = reached
            megabytes = total / 1_000_000
            self._notes.note(f"{self._title}: {100 * reached // _STEPS} % of {megabytes:.1f} MB")
