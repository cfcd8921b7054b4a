"""Engines whose steps take so much longer, so that an answer lasts for as long as a test does.

How long a small model's answer lasts is a matter of the machine. With steps that sleep, at least
the number of tokens times the sleep passes on any; without speculation a token is a step.

slow_steps.py SECONDS ARGUMENTS    the command line, with an engine like that
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from radixchat.engine.engine import Engine
from radixchat.engine.request import TokenEvent


@contextlib.contextmanager
def slowed(seconds: float) -> Iterator[None]:
    """Every step of an engine takes so much longer."""
    step = Engine.step

    def slow_step(engine: Engine) -> list[TokenEvent]:
        time.sleep(seconds)
        return step(engine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "step", slow_step)
        yield


@contextlib.contextmanager
def tripped(token: int, consequence: Callable[[], None]) -> Iterator[None]:
    """The step that has brought its `token`-th token, counted here, has a consequence.

    It happens on the engine's thread, before the loop is told of that token.
    """
    step, left = Engine.step, token

    def step_of_consequence(engine: Engine) -> list[TokenEvent]:
        nonlocal left
        events = step(engine)
        before = left
        left -= sum(event.token is not None for event in events)
        if left <= 0 < before:
            consequence()
        return events

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "step", step_of_consequence)
        yield


def slow_command(seconds: float) -> tuple[str, ...]:
    """The beginning of a command line `radixchat ...` whose engine is like that."""
    return (sys.executable, "-m", __name__, str(seconds))


if __name__ == "__main__":
    from radixchat.chat_cli.main import main

    with slowed(float(sys.argv.pop(1))):
        main()
