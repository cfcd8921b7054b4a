"""How far a replay is: a bar on standard error while that is a terminal, and nothing elsewhere.

Drawn between requests, by no thread of its own, so that it isn't in the measured times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from radixchat.bench.trace import Trace, TraceItem

if TYPE_CHECKING:
    from rich.progress import Progress

Watch = Callable[[str, Trace, int | None], Iterator[TraceItem]]
"""Begins a pass over a trace: what the pass is called, and how many requests, if that is known."""

_REDRAW_SECONDS = 0.1


def unwatched(_name: str, trace: Trace, _requests: int | None) -> Iterator[TraceItem]:
    """A pass that nobody sees."""
    return iter(trace)


@contextmanager
def progress_on(stream: TextIO | None) -> Iterator[Watch]:
    """A Watch that draws on `stream`; the bar is gone when this ends, however it ends.

    stream: None where it was closed before the program began.
    """
    if stream is None or not stream.isatty():
        yield unwatched
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(
        TextColumn("{task.description:<26}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        console=Console(file=stream),
        auto_refresh=False,
        transient=True,
    ) as progress:
        yield _Drawn(progress).watch


class _Drawn:
    """One task after the other on one bar."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)
        self._drawn = 0.0

    def watch(self, name: str, trace: Trace, requests: int | None) -> Iterator[TraceItem]:
        """A pass whose progress is seen: in requests, or in bytes while they are not counted."""
        self._progress.reset(self._task, total=requests, description=name)
        self._progress.refresh()
        if requests is None:
            yield from trace.items(self._show)
            return
        for number, item in enumerate(trace):
            self._show(number, requests)
            yield item

    def _show(self, completed: int, total: int) -> None:
        now = time.monotonic()
        if now - self._drawn >= _REDRAW_SECONDS:
            self._drawn = now
            # Signals are items too, so there may be more of them than requests.
            self._progress.update(self._task, completed=min(completed, total), total=total)
            self._progress.refresh()
