"""Ctrl-C, SIGTERM and a closed terminal, as one decision: stop the answer, or leave.

Owns the handlers of these signals while a chat runs, and the time by which leaving must be over.
Knows no answer and no prompt: whoever can be stopped says so with `directed_to`.

    startup, shutdown   leave at once
    an answer           a first Ctrl-C stops it, a second within 2 s leaves; Esc stops it; SIGTERM
                        and SIGHUP stop it and leave
    waiting for input   the input is woken, and asks `leaving` and `stopped_recently`
    leaving             any further signal ends the process without ceremony

Leaving has a deadline. Closing waits for the engine to finish a step, and a step can hang: then
SIGALRM ends the process. What the store has is safe by then, it is written as it comes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import NoReturn

from radixchat.chat_cli import exit_codes

SECOND_PRESS_SECONDS = 2.0
STOPPING_SECONDS = 5.0
"""How long an answer may take to stop and be stored when a signal asked to leave."""
ABANDONING_SECONDS = 1.0
"""How long closing may take when the user has asked twice."""

_EXIT_CODES: Mapping[signal.Signals, int] = {
    signal.SIGINT: exit_codes.INTERRUPTED,
    signal.SIGTERM: exit_codes.TERMINATED,
    signal.SIGHUP: exit_codes.HANGUP,
}


@dataclass(frozen=True, slots=True)
class Target:
    """What a signal acts on: `stop` asks it to end well, `abandon` leaves it as it is.

    Both are called from a signal handler, so they may only schedule and take note.
    """

    stop: Callable[[], object]
    abandon: Callable[[], object]


class Interrupts:
    """The signals of one run, as a context manager.

    interrupt_leaves: a first Ctrl-C stops and leaves; otherwise it stops only. before_exit is
    called when the process must end at once: it restores the terminal. on_interrupt is called at
    every Ctrl-C that stops something, from the handler: it drops what was typed ahead. stop_waiting
    is called, from the handler too, whenever something is stopped: it may wait for a server that is
    lost. leaving: the exit code with which a signal has asked to leave. stopped_by: who stopped the
    last answer, "you" or the name of a signal.
    """

    def __init__(self, *, interrupt_leaves: bool) -> None:
        self.leaving: int | None = None
        self.stopped_by: str | None = None
        self.before_exit: Callable[[], None] | None = None
        self.on_interrupt: Callable[[], object] | None = None
        self.stop_waiting: Callable[[], object] | None = None
        self._interrupt_leaves = interrupt_leaves
        self._target: Target | None = None
        self._stopped_at: float | None = None
        self._previous: dict[signal.Signals, signal._HANDLER] = {}
        self._previous_timer: tuple[float, float] | None = None

    def __enter__(self) -> Interrupts:
        for number in _EXIT_CODES:
            current = signal.getsignal(number)
            # `nohup` and background jobs of a script ignore a signal on purpose.
            if current != signal.SIG_IGN:
                self._previous[number] = current
                signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._previous_timer is not None:
            signal.setitimer(signal.ITIMER_REAL, *self._previous_timer)
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @property
    def stopped_recently(self) -> bool:
        """Whether a Ctrl-C less than two seconds ago stopped an answer."""
        return (
            self._stopped_at is not None
            and time.monotonic() - self._stopped_at < SECOND_PRESS_SECONDS
        )

    def note_start(self) -> None:
        """Another answer begins: a Ctrl-C will be its first."""
        self._stopped_at = None
        self.stopped_by = None

    def note_stop(self) -> None:
        """A Ctrl-C has stopped an answer: another one soon means that the user wants to leave."""
        self._stopped_at = time.monotonic()

    @contextlib.contextmanager
    def directed_to(self, target: Target) -> Iterator[None]:
        """Signals act on `target` while the block runs."""
        previous, self._target = self._target, target
        try:
            yield
        finally:
            self._target = previous

    def stop(self) -> None:
        """Stop what runs, and no more: what was typed is kept, and the next Ctrl-C is a first."""
        if self._target is None or self.leaving is not None:
            return
        stopped_at = self._stopped_at
        self._stop("you", self._target)
        self._stopped_at = stopped_at

    def leave(self, code: int, seconds: float = STOPPING_SECONDS) -> None:
        """From now on the process is leaving with `code`, within `seconds`."""
        self.leaving = code
        if self._previous_timer is None:
            self._previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._handle)
            self._previous_timer = signal.getitimer(signal.ITIMER_REAL)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.leaving is not None:
            self.exit_now(self.leaving)
        code = _EXIT_CODES[signal.Signals(number)]
        target = self._target
        if target is None:
            self.leave(code, ABANDONING_SECONDS)
            raise SystemExit(code)
        if number == signal.SIGINT and self.on_interrupt is not None:
            self.on_interrupt()
        if number == signal.SIGINT and self.stopped_recently:
            self.leave(code, ABANDONING_SECONDS)
            target.abandon()
            return
        if number != signal.SIGINT or self._interrupt_leaves:
            self.leave(code)
        self._stop("you" if number == signal.SIGINT else signal.Signals(number).name, target)

    def _stop(self, who: str, target: Target) -> None:
        self.stopped_by = who
        if self.stop_waiting is not None:
            self.stop_waiting()
        target.stop()

    def exit_now(self, code: int) -> NoReturn:
        """End the process, whatever goes on in its threads; the terminal is as it was."""
        if self.before_exit is not None:
            self.before_exit()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                stream.flush()
        os._exit(code)
