"""A turn that is stopped: by a signal, or because nobody reads. The partial answer is kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import AsyncGeneratorType

import pytest

from radixchat.chat_cli.client import open_client
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.render import TextOutput
from radixchat.chat_cli.settings import ChatSettings
from radixchat.chat_cli.turn import Turn
from radixchat.server.protocol import ResponseCreated
from radixchat.tests.chat_cli.consoles import Recording, console, notes
from radixchat.tests.chat_cli.scripted import messages_of, run_script, tiny_settings
from radixchat.tests.slow_steps import tripped

# An answer that is to be stopped goes on for a minute.
pytestmark = pytest.mark.usefixtures("unhurried")


@pytest.fixture
def settings(tiny_model: Path, tmp_path: Path) -> ChatSettings:
    """Answers that go on unless they are stopped."""
    return tiny_settings(tiny_model, tmp_path / "sessions.db", max_output_tokens=None, json=False)


class Tripwire(Recording):
    """Standard output on which the third delta of an answer has a consequence."""

    def __init__(self, consequence: Callable[[], None]) -> None:
        super().__init__()
        self._consequence = consequence
        self._writes = 0

    def write(self, text: str) -> int:
        self._writes += 1
        if self._writes == 3:
            self._consequence()
        return super().write(text)


@pytest.mark.parametrize(
    ("number", "code", "who"), [(signal.SIGINT, 130, "you"), (signal.SIGTERM, 143, "SIGTERM")]
)
def test_signal(settings: ChatSettings, number: int, code: int, who: str) -> None:
    """The answer ends, what was shown is what is stored, the next line is not asked."""
    stream = Tripwire(lambda: os.kill(os.getpid(), number))
    run = run_script(settings, "one", "two", answers=stream)
    assert run.code == code
    assert run.stderr.count(f"stopped by {who}") == 1
    user, answer = messages_of(settings)
    assert (user.text, answer.status) == ("one", "interrupted")
    assert run.stdout == answer.text + "\n"
    assert len(answer.text) >= 2


def test_json(settings: ChatSettings, tiny_model: Path) -> None:
    """With --json an interrupted turn is an object like any other."""
    as_json = tiny_settings(tiny_model, settings.database, max_output_tokens=None)
    with tripped(5, lambda: os.kill(os.getpid(), signal.SIGINT)):
        run = run_script(as_json, "one", "two")
    (turn,) = run.turns
    assert (run.code, run.stderr) == (130, "")
    assert (turn["status"], turn["incomplete_details"]) == ("incomplete", {"reason": "interrupted"})
    assert messages_of(settings)[-1].text == turn["output_text"]


def test_going_on_after_an_interruption(settings: ChatSettings, tiny_model: Path) -> None:
    """The next turn follows the partial answer."""
    as_json = tiny_settings(tiny_model, settings.database, max_output_tokens=None)
    with tripped(5, lambda: os.kill(os.getpid(), signal.SIGINT)):
        (stopped,) = run_script(as_json, "one").turns
    (turn,) = run_script(
        tiny_settings(tiny_model, settings.database),
        "two",
        conversation=stopped["conversation"],
    ).turns
    known = stopped["input_ids"] + stopped["output_ids"]
    assert turn["input_ids"][: len(known)] == known
    assert [m.status for m in messages_of(settings)][:2] == ["complete", "interrupted"]


def test_signal_while_waiting_for_input(settings: ChatSettings) -> None:
    """With nothing to answer a signal ends the run at once."""
    run = run_script(settings, after=(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)))
    assert (run.code, run.stdout, run.stderr) == (130, "", "")


def test_output_closed(settings: ChatSettings) -> None:
    """When the reader goes away the answer is stopped and kept, and the error says it all."""

    def close() -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_script(settings, "one", "two", answers=Tripwire(close))
    user, answer = messages_of(settings)
    assert (user.text, answer.status) == ("one", "interrupted")


@pytest.mark.parametrize("closes", [False, True], ids=["answered", "output closed"])
def test_events_are_closed_when_the_turn_is_over(
    tiny_model: Path, tmp_path: Path, *, closes: bool
) -> None:
    """Also when the output fails: what the service does at the end is not left to the collector."""
    settings = tiny_settings(tiny_model, tmp_path / "sessions.db")

    def close() -> None:
        if closes:
            raise BrokenPipeError

    async def run() -> None:
        async with open_client(settings) as client:
            conversation = await client.create_conversation()
            events = client.send(conversation, "one", settings.answer)
            output = TextOutput(console(Tripwire(close)), notes()[0])
            interrupts = Interrupts(interrupt_leaves=True)
            told: list[ResponseCreated] = []
            turn = Turn(client, conversation, events, output, interrupts, told.append)
            expected = pytest.raises(BrokenPipeError) if closes else contextlib.nullcontext()
            with expected:
                await turn.run()
            assert [created.conversation for created in told] == [conversation]
            assert isinstance(events, AsyncGeneratorType)
            assert events.ag_frame is None

    asyncio.run(run())


def test_an_end_that_takes_its_time(settings: ChatSettings) -> None:
    """Who has stopped an answer is told, once, that its end is on its way."""

    async def run() -> None:
        speaker, errors = notes()
        async with open_client(settings) as client:
            conversation = await client.create_conversation()
            events = client.send(conversation, "one", settings.answer)
            output = TextOutput(console(Recording()), speaker)
            interrupts = Interrupts(interrupt_leaves=False)

            def stop_and_hang() -> None:
                interrupts.stop()
                deadline = time.monotonic() + 60
                while "stopping" not in errors.getvalue() and time.monotonic() < deadline:
                    time.sleep(0.01)

            turn = Turn(
                client, conversation, events, output, interrupts, lambda _: None, speaker.note
            )
            with tripped(3, stop_and_hang):
                done = await turn.run()
            assert done.reason == "interrupted"
            assert errors.getvalue().count("note: stopping …; Ctrl-C again leaves\n") == 1

    asyncio.run(run())
