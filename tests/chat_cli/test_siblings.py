"""Several answers to one message: all are shown, kept and ended, and one goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.chat_cli.client import ChatClient, open_client
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.render import JsonOutput, Output, TextOutput
from radixchat.chat_cli.settings import ChatSettings
from radixchat.chat_cli.siblings import Siblings
from radixchat.engine.engine import Engine
from radixchat.engine.errors import EngineOverloaded
from radixchat.engine.request import Request, TokenEvent
from radixchat.server.protocol import ResponseDone, TreeMessage
from radixchat.tests.chat_cli.chat_terminal import ChatTerminal
from radixchat.tests.chat_cli.consoles import Recording, console, notes
from radixchat.tests.chat_cli.scripted import tiny_settings


class Scene:
    """A conversation of one turn, and somewhere to show its other answers.

    output: of text, unless it is replaced. errors: what was said beside them.
    """

    def __init__(self, client: ChatClient, settings: ChatSettings, conversation: str) -> None:
        self.client = client
        self.settings = settings
        self.conversation = conversation
        self.stream = Recording()
        self.notes, self.errors = notes()
        self.interrupts = Interrupts(interrupt_leaves=False)
        self.output: Output = TextOutput(console(self.stream), self.notes)

    def siblings(self, count: int) -> Siblings:
        return Siblings(
            self.client,
            self.conversation,
            self.settings.answer,
            count,
            self.output,
            self.interrupts,
            self.notes,
        )

    async def stored(self, answers: Sequence[ResponseDone]) -> list[TreeMessage]:
        """The messages that these have become."""
        tree = await self.client.tree(self.conversation)
        by_response = {response: message for message in tree for response in message.responses}
        return [by_response[done.response or ""] for done in answers]

    async def tip(self) -> str:
        return (await self.client.messages(self.conversation))[-1].text


class Picks:
    """Somebody at a terminal who always presses this key. asked: the keys they had."""

    def __init__(self, key: str | None) -> None:
        self._key = key
        self.asked: list[str] = []

    async def choose(self, question: str, keys: str) -> str | None:
        self.asked.append(keys)
        return self._key


def play(
    model: Path,
    path: Path,
    work: Callable[[Scene], Awaitable[None]],
    *,
    survives: bool = True,
    **changes: object,
) -> Scene:
    """Answer a message once, do the work; after it nothing runs in an engine that survives it."""
    settings = tiny_settings(model, path / "sessions.db", **{"temperature": 1.0, **changes})

    async def run() -> Scene:
        async with open_client(settings) as client:
            conversation = await client.create_conversation()
            first = replace(settings.answer, max_output_tokens=1)
            async for _ in client.send(conversation, "one", first):
                pass
            scene = Scene(client, settings, conversation)
            with scene.interrupts:
                await work(scene)
            if survives:
                assert (await client.conversation(conversation)).running is None
                stats = await client.stats()
                assert (stats["running"], stats["waiting"]) == (0, 0)
            return scene

    return asyncio.run(run())


def texts(answers: tuple[ResponseDone, ...]) -> list[str]:
    return [done.output_text for done in answers]


def test_all_are_shown_in_their_order(tiny_model: Path, tmp_path: Path) -> None:
    """Each as a whole, under its heading; stored as siblings, the first on the path."""
    shown: list[str] = []

    async def work(scene: Scene) -> None:
        told: list[str] = []
        answers = await scene.siblings(3).run(lambda created: told.append(created.response))
        assert [done.status for done in answers] == ["incomplete"] * 3
        assert told == [answers[0].response]
        stored = await scene.stored(answers)
        assert [message.text for message in stored] == texts(answers)
        assert len({message.parent for message in stored}) == 1
        assert await scene.tip() == answers[0].output_text
        shown.extend(texts(answers))

    scene = play(tiny_model, tmp_path, work)
    assert scene.stream.getvalue() == "".join(f"{text}\n" for text in shown)
    headings = [line for line in scene.errors.getvalue().splitlines() if " of 3 " in line]
    assert [line.strip("─ ") for line in headings] == [f"answer {n} of 3" for n in (1, 2, 3)]
    assert scene.errors.getvalue().count("max tokens reached") == 3


def test_json_has_a_record_of_each(tiny_model: Path, tmp_path: Path) -> None:
    """In their order, one line each."""

    async def work(scene: Scene) -> None:
        scene.output = JsonOutput(scene.stream, ids=False)
        answers = await scene.siblings(2).run(lambda _: None)
        lines = scene.stream.getvalue().splitlines()
        assert len(lines) == 2
        for line, done in zip(lines, answers, strict=True):
            assert f'"response": "{done.response}"' in line

    play(tiny_model, tmp_path, work)


def test_a_seed_makes_them_repeatable_and_different(tiny_model: Path, tmp_path: Path) -> None:
    """Answer i has the seed and i; the highest one is followed by 0."""
    seed = 2**63 - 2

    async def work(scene: Scene) -> None:
        answers = await scene.siblings(3).run(lambda _: None)
        assert [done.seed for done in answers] == [seed, seed + 1, 0]
        again = await scene.siblings(3).run(lambda _: None)
        assert texts(again) == texts(answers)
        assert len(set(texts(answers))) > 1

    play(tiny_model, tmp_path, work, seed=seed)


def test_one_prefill_serves_them_all(tiny_model: Path, tmp_path: Path) -> None:
    """None of them computes more of the prompt than its last token."""

    async def work(scene: Scene) -> None:
        for done in await scene.siblings(4).run(lambda _: None):
            assert done.usage.input_tokens - done.usage.cached_tokens == 1

    play(tiny_model, tmp_path, work)


def test_the_chosen_one_goes_on(tiny_model: Path, tmp_path: Path) -> None:
    """Its key is asked for among all; the tip moves, and it is said where the others are."""

    async def work(scene: Scene) -> None:
        siblings, somebody = scene.siblings(3), Picks("3")
        answers = await siblings.run(lambda _: None)
        assert await siblings.choose(answers, somebody) is answers[2]
        assert somebody.asked == ["123"]
        assert await scene.tip() == answers[2].output_text

    scene = play(tiny_model, tmp_path, work, seed=1)
    assert scene.errors.getvalue().splitlines()[-1].startswith("answer 3 of 3 goes on; /tree ")


@pytest.mark.parametrize("chooser", [None, Picks(None)], ids=["a script", "no answer"])
def test_without_a_choice_the_first_goes_on(
    tiny_model: Path, tmp_path: Path, chooser: Picks | None
) -> None:
    """Where nobody can be asked, or does not say."""

    async def work(scene: Scene) -> None:
        siblings = scene.siblings(2)
        answers = await siblings.run(lambda _: None)
        assert await siblings.choose(answers, chooser) is answers[0]
        assert await scene.tip() == answers[0].output_text

    scene = play(tiny_model, tmp_path, work, seed=1)
    assert "answer 1 of 2 goes on; /tree" in scene.errors.getvalue()


def test_greedy_answers_are_announced_as_alike(tiny_model: Path, tmp_path: Path) -> None:
    """Who asks for several at temperature 0 is told before they come."""

    async def work(scene: Scene) -> None:
        answers = await scene.siblings(2).run(lambda _: None)
        assert answers[0].output_text == answers[1].output_text

    scene = play(tiny_model, tmp_path, work, temperature=0.0)
    assert "note: at temperature 0 the answers are all alike" in scene.errors.getvalue()


class Tripwire(Recording):
    """A stream with a consequence, once: when something is written for which `is_due`."""

    def __init__(self, is_due: Callable[[Tripwire], bool], consequence: Callable[[], None]) -> None:
        super().__init__()
        self.num_writes = 0
        self._is_due = is_due
        self._consequence = consequence
        self._tripped = False

    def write(self, text: str) -> int:
        written = super().write(text)
        self.num_writes += 1
        if not self._tripped and self._is_due(self):
            self._tripped = True
            self._consequence()
        return written


def third_write(stream: Tripwire) -> bool:
    return stream.num_writes == 3


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_one_interruption_stops_them_all(tiny_model: Path, tmp_path: Path) -> None:
    """While endless ones run: what there is of each is shown and kept, and can be chosen."""

    async def work(scene: Scene) -> None:
        scene.stream = Tripwire(third_write, press_ctrl_c)
        scene.output = TextOutput(console(scene.stream), scene.notes)
        siblings, somebody = scene.siblings(3), Picks("2")
        answers = await siblings.run(lambda _: None)
        assert [done.reason for done in answers] == ["interrupted"] * 3
        stored = await scene.stored(answers)
        assert {message.status for message in stored} == {"interrupted"}
        assert [message.text for message in stored] == texts(answers)
        if answers[1].output_text:
            assert await siblings.choose(answers, somebody) is answers[1]
        assert scene.stream.getvalue() == "".join(f"{text}\n" for text in texts(answers))

    scene = play(tiny_model, tmp_path, work, max_output_tokens=None)
    assert scene.errors.getvalue().count("stopped by you") == 3


def test_an_interruption_after_the_first_stops_the_others(tiny_model: Path, tmp_path: Path) -> None:
    """Somebody else has ended the first: endless others are stopped as well as shown."""

    async def work(scene: Scene) -> None:
        begun: list[str] = []
        cancelling: list[asyncio.Task[None]] = []

        def end_the_first() -> None:
            cancelling.append(asyncio.create_task(scene.client.cancel(begun[0])))

        scene.stream = Tripwire(third_write, end_the_first)
        scene.errors = Tripwire(lambda stream: "cached " in stream.getvalue(), press_ctrl_c)
        scene.notes = Notes(console(scene.errors))
        scene.output = TextOutput(console(scene.stream), scene.notes)
        answers = await scene.siblings(3).run(lambda created: begun.append(created.response))
        await cancelling[0]
        assert [done.reason for done in answers] == ["interrupted"] * 3

    scene = play(tiny_model, tmp_path, work, max_output_tokens=None)
    assert scene.errors.getvalue().count("stopped by you") == 2


@pytest.mark.parametrize("first_has_ended", [False, True])
def test_a_second_interruption_leaves(
    tiny_model: Path, tmp_path: Path, *, first_has_ended: bool
) -> None:
    """At once, with the code of who leaves: while the first comes, or the others are awaited."""

    async def work(scene: Scene) -> None:
        begun: list[str] = []
        cancelling: list[asyncio.Task[None]] = []

        def press_twice() -> None:
            press_ctrl_c()
            press_ctrl_c()

        def end_the_first() -> None:
            cancelling.append(asyncio.create_task(scene.client.cancel(begun[0])))

        in_text, at_end = (end_the_first, press_twice)
        if not first_has_ended:
            in_text, at_end = (press_twice, end_the_first)
        scene.stream = Tripwire(third_write, in_text)
        scene.errors = Tripwire(lambda stream: "cached " in stream.getvalue(), at_end)
        scene.notes = Notes(console(scene.errors))
        scene.output = TextOutput(console(scene.stream), scene.notes)
        with pytest.raises(SystemExit) as left:
            await scene.siblings(3).run(lambda created: begun.append(created.response))
        assert left.value.code == 130
        assert len(cancelling) == first_has_ended

    play(tiny_model, tmp_path, work, survives=False, max_output_tokens=None)


def test_output_closed(tiny_model: Path, tmp_path: Path) -> None:
    """When the reader goes away none of them runs on, and what there is of each is kept."""

    async def work(scene: Scene) -> None:
        def close() -> None:
            raise BrokenPipeError

        scene.output = TextOutput(console(Tripwire(third_write, close)), scene.notes)
        with pytest.raises(BrokenPipeError):
            await scene.siblings(3).run(lambda _: None)
        tree = await scene.client.tree(scene.conversation)
        answers = [message.status for message in tree if message.role == "assistant"]
        assert answers == ["interrupted"] * 4

    play(tiny_model, tmp_path, work, max_output_tokens=None)


def test_one_that_is_refused_leaves_the_others(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its error and no answer; the key of it is not offered."""
    submitted: list[Request] = []
    submit = Engine.submit

    def refuse_the_third(engine: Engine, *requests: Request) -> None:
        submitted.extend(requests)
        if len(submitted) == 3:  # the turn's own is the first
            raise EngineOverloaded(256, 256)
        submit(engine, *requests)

    async def work(scene: Scene) -> None:
        siblings, somebody = scene.siblings(3), Picks("3")
        answers = await siblings.run(lambda _: None)
        assert [done.status for done in answers] == ["incomplete", "failed", "incomplete"]
        assert answers[1].error is not None
        assert answers[1].error.code == "server_overloaded"
        assert await siblings.choose(answers, somebody) is answers[2]
        assert somebody.asked == ["13"]

    monkeypatch.setattr(Engine, "submit", refuse_the_third)
    scene = play(tiny_model, tmp_path, work, seed=1)
    assert scene.errors.getvalue().count("error: ") == 1


def test_the_first_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    """Then there are no others, nothing is asked and the conversation is as it was."""

    async def work(scene: Scene) -> None:
        scene.conversation = await scene.client.create_conversation()
        siblings, somebody = scene.siblings(3), Picks("2")
        answers = await siblings.run(lambda _: None)
        assert [(done.status, done.response) for done in answers] == [("failed", None)]
        assert await siblings.choose(answers, somebody) is answers[0]
        assert somebody.asked == []

    assert play(tiny_model, tmp_path, work).stream.getvalue() == ""


def test_the_engine_fails(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them has one end, which says so; nothing is chosen."""
    step = Engine.step

    def fail_with_several(engine: Engine) -> list[TokenEvent]:
        if engine.snapshot().running == 3:
            raise MemoryError("no room for this step")
        return step(engine)

    async def work(scene: Scene) -> None:
        siblings, somebody = scene.siblings(3), Picks("1")
        answers = await siblings.run(lambda _: None)
        codes = [done.error.code for done in answers if done.error is not None]
        assert codes == ["engine_failed"] * 3
        assert await siblings.choose(answers, somebody) is answers[0]
        assert somebody.asked == []

    monkeypatch.setattr(Engine, "step", fail_with_several)
    play(tiny_model, tmp_path, work, survives=False, max_output_tokens=None)


@pytest.mark.slow
def test_a_key_chooses_at_a_terminal(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three answers the second is taken with one key; the picture of its prompt has styles."""
    monkeypatch.setenv("RADIXCHAT_MODEL", str(tiny_model))
    arguments = ("--temperature", "1.5", "--seed", "3", "--max-tokens", "12", "--threads", "1")
    with ChatTerminal("chat", *arguments) as chat:
        chat.wait_for(r"^> ?\Z")
        chat.enter("hello")
        chat.answered(1)
        chat.enter("/regen 3")
        chat.wait_for(r"^which answer goes on\? 1, 2, 3; Enter keeps 1 ?\Z")
        for number in (1, 2, 3):
            assert f"── answer {number} of 3 ──" in chat.text
        chat.type("2")
        chat.wait_for("^answer 2 of 3 goes on; /tree shows the others")
        chat.wait_for(r"^> ?\Z")
        chat.enter("/cache")
        chat.wait_for("^editing turn 1 recomputes [0-9]+ tokens")
        chat.wait_for(r"^> ?\Z")
        assert "\x1b[2m  <|im_start|>user" in chat.raw
        assert "\x1b[1m+ " in chat.raw
        chat.type("\x04")
        assert chat.exit_code() == 0
        assert "Traceback" not in chat.text
