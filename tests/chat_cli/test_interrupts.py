"""Signals: what one stops, what a second one does, and how leaving ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from radixchat.chat_cli import interrupts as module
from radixchat.chat_cli.interrupts import Interrupts, Target


class Answer:
    """Something to stop; notes what was asked of it."""

    def __init__(self, interrupts: Interrupts) -> None:
        self.calls: list[str] = []
        self._interrupts = interrupts

    def target(self) -> Target:
        return Target(stop=self.stop, abandon=lambda: self.calls.append("abandon"))

    def stop(self) -> None:
        self._interrupts.note_stop()
        self.calls.append("stop")


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def test_first_and_second_interrupt() -> None:
    """At a prompt's answer: a first Ctrl-C stops, a second soon after leaves with 130."""
    with Interrupts(interrupt_leaves=False) as interrupts:
        answer = Answer(interrupts)
        with interrupts.directed_to(answer.target()):
            send(signal.SIGINT)
            assert interrupts.leaving is None
            assert interrupts.stopped_recently
            send(signal.SIGINT)
        assert answer.calls == ["stop", "abandon"]
        assert interrupts.leaving == 130


def test_what_an_interrupt_drops() -> None:
    """Every Ctrl-C tells of itself before it stops something; SIGTERM does not."""
    with Interrupts(interrupt_leaves=False) as interrupts:
        answer = Answer(interrupts)
        interrupts.on_interrupt = lambda: answer.calls.append("drop")
        with interrupts.directed_to(answer.target()):
            send(signal.SIGINT)
            interrupts.note_start()
            send(signal.SIGTERM)
        assert answer.calls == ["drop", "stop", "stop"]


def test_esc() -> None:
    """It stops, again and again, and drops nothing; a Ctrl-C soon afterwards is the first."""
    with Interrupts(interrupt_leaves=False) as interrupts:
        answer = Answer(interrupts)
        interrupts.on_interrupt = lambda: answer.calls.append("drop")
        interrupts.stop_waiting = lambda: answer.calls.append("stop waiting")
        with interrupts.directed_to(answer.target()):
            interrupts.stop()
            interrupts.stop()
            assert answer.calls == ["stop waiting", "stop"] * 2
            assert interrupts.stopped_by == "you"
            send(signal.SIGINT)
            assert interrupts.leaving is None
            interrupts.stop()
            send(signal.SIGINT)
        assert interrupts.leaving == 130
        assert answer.calls[-1] == "abandon"


def test_a_late_second_interrupt_stops_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two Ctrl-C far apart are two stops."""
    monkeypatch.setattr(module, "SECOND_PRESS_SECONDS", 0.01)
    with Interrupts(interrupt_leaves=False) as interrupts:
        answer = Answer(interrupts)
        with interrupts.directed_to(answer.target()):
            send(signal.SIGINT)
            time.sleep(0.02)
            assert not interrupts.stopped_recently
            send(signal.SIGINT)
        assert answer.calls == ["stop", "stop"]
        assert interrupts.leaving is None


@pytest.mark.parametrize(
    ("number", "code", "who"),
    [
        (signal.SIGINT, 130, "you"),
        (signal.SIGTERM, 143, "SIGTERM"),
        (signal.SIGHUP, 129, "SIGHUP"),
    ],
)
def test_in_a_script(number: int, code: int, who: str) -> None:
    """Without a prompt each of the signals stops the answer, in its own name, and leaves."""
    with Interrupts(interrupt_leaves=True) as interrupts:
        answer = Answer(interrupts)
        with interrupts.directed_to(answer.target()):
            send(number)
        assert answer.calls == ["stop"]
        assert interrupts.leaving == code
        assert interrupts.stopped_by == who
        interrupts.note_start()
        assert interrupts.stopped_by is None


def test_terminating_a_prompt() -> None:
    """SIGTERM leaves also where Ctrl-C would only stop."""
    with Interrupts(interrupt_leaves=False) as interrupts:
        answer = Answer(interrupts)
        with interrupts.directed_to(answer.target()):
            send(signal.SIGTERM)
        assert (answer.calls, interrupts.leaving) == (["stop"], 143)


def test_nothing_to_stop() -> None:
    """While nothing runs that could be stopped, a signal leaves at once."""
    with Interrupts(interrupt_leaves=False), pytest.raises(SystemExit) as caught:
        send(signal.SIGINT)
    assert caught.value.code == 130


def test_handlers_and_deadline_are_taken_back() -> None:
    """Afterwards the signals do what they did, and no deadline is left."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    others_timer, _ = signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        with Interrupts(interrupt_leaves=True) as interrupts:
            interrupts.leave(130)
            assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= module.STOPPING_SECONDS
        assert [signal.getsignal(number) for number in numbers] == before
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 900
    finally:
        signal.setitimer(signal.ITIMER_REAL, others_timer)


def test_an_ignored_signal_stays_ignored() -> None:
    """Under nohup a closed terminal ends nothing."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts(interrupt_leaves=True) as interrupts:
            send(signal.SIGHUP)
            assert interrupts.leaving is None
    finally:
        signal.signal(signal.SIGHUP, before)


HANGING = """
import os, signal, sys, time
from radixchat.chat_cli.interrupts import Interrupts, Target
with Interrupts(interrupt_leaves=True) as interrupts:
    interrupts.before_exit = lambda: print("restored", flush=True)
    with interrupts.directed_to(Target(stop=lambda: None, abandon=lambda: None)):
        os.kill(os.getpid(), signal.SIGTERM)
        {}
        while True:
            time.sleep(1)
"""


@pytest.mark.parametrize(
    "hurry", ["os.kill(os.getpid(), signal.SIGINT)", "interrupts.leave(143, 0.05)"]
)
def test_what_hangs_is_left(hurry: str) -> None:
    """A further signal, or the deadline, ends a process that does not stop; quietly."""
    done = subprocess.run(
        [sys.executable, "-c", HANGING.format(hurry)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (143, "restored\n", "")
