"""The conversation a user is in: when it exists, what it takes over, what it earns."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from radixchat.chat_cli.client import ChatClient, open_client
from radixchat.chat_cli.command_line import COMMANDS
from radixchat.chat_cli.commands import (
    Edit,
    Misunderstood,
    Regenerate,
    Say,
    ShowHelp,
    ShowStats,
    StartNew,
    Undo,
)
from radixchat.chat_cli.control_characters import without_controls
from radixchat.chat_cli.dialogue import Dialogue
from radixchat.chat_cli.engine_figures import figure
from radixchat.chat_cli.interrupts import Interrupts
from radixchat.chat_cli.render import TextOutput
from radixchat.engine.engine import Engine
from radixchat.engine.errors import EngineOverloaded
from radixchat.engine.request import Request
from radixchat.server.protocol import ResponseFormat
from radixchat.tests.chat_cli.chat_scene import ChatScene, in_chat
from radixchat.tests.chat_cli.consoles import Recording, console, notes
from radixchat.tests.chat_cli.scripted import tiny_settings


def converse(
    model: Path, path: Path, work: Callable[[Dialogue, ChatClient], Awaitable[None]]
) -> str:
    """Do the work in a new dialogue over the real service; what was said on standard error."""
    settings = tiny_settings(model, path / "sessions.db")
    speaker, errors = notes()

    async def run() -> None:
        async with open_client(settings) as client:
            output = TextOutput(console(Recording()), speaker)
            interrupts = Interrupts(interrupt_leaves=True)
            await work(Dialogue(client, settings, output, speaker, interrupts), client)

    asyncio.run(run())
    return errors.getvalue()


def test_no_empty_conversations(tiny_model: Path, tmp_path: Path) -> None:
    """A conversation is stored with its first message, so that -c never finds an empty one."""

    async def work(dialogue: Dialogue, client: ChatClient) -> None:
        for command in (ShowHelp(), StartNew(), Undo()):
            await dialogue.perform(command)
        assert await client.latest_conversation() is None
        await dialogue.perform(Say("one"))
        first = await client.latest_conversation()
        await dialogue.perform(StartNew())
        assert await client.latest_conversation() == first
        assert await dialogue.user_turns() == []

    converse(tiny_model, tmp_path, work)


def test_user_turns(tiny_model: Path, tmp_path: Path) -> None:
    """The user's messages on the path, after an edit too."""

    async def work(dialogue: Dialogue, client: ChatClient) -> None:
        for command in (Say("one"), Say("two"), Say("three"), Edit(2, "other")):
            assert await dialogue.perform(command) is None
        assert await dialogue.user_turns() == ["one", "other"]

    converse(tiny_model, tmp_path, work)


def test_resume(tiny_model: Path, tmp_path: Path) -> None:
    """Resuming gives the messages and goes on in that conversation."""

    async def work(dialogue: Dialogue, client: ChatClient) -> None:
        conversation = await client.create_conversation("be brief")
        messages = await dialogue.resume(conversation)
        assert [(message.role, message.text) for message in messages] == [("system", "be brief")]
        await dialogue.perform(Say("one"))
        assert await client.latest_conversation() == conversation

    converse(tiny_model, tmp_path, work)


def test_the_first_failure_decides_the_exit_code(tiny_model: Path, tmp_path: Path) -> None:
    """An error is returned and remembered; a later success does not undo it."""

    async def work(dialogue: Dialogue, client: ChatClient) -> None:
        assert dialogue.exit_code == 0
        error = await dialogue.perform(Misunderstood("no such thing"))
        assert error is not None
        assert error.message == "no such thing"
        await dialogue.perform(Say("one"))
        assert dialogue.exit_code == 1
        assert not dialogue.engine_failed

    assert "error: no such thing\n" in converse(tiny_model, tmp_path, work)


def test_turns_of_another_process_are_told(tiny_model: Path, tmp_path: Path) -> None:
    """Before an answer or /undo it is said what was done elsewhere, once; own turns never are."""
    options = tiny_settings(tiny_model, tmp_path).answer

    async def work(dialogue: Dialogue, client: ChatClient) -> None:
        assert dialogue.stored is None
        for command in (Say("one"), Say("two"), Regenerate(), Edit(2, "other"), Undo()):
            await dialogue.perform(command)
        conversation = await client.latest_conversation()
        assert conversation is not None
        assert dialogue.stored == conversation
        async with contextlib.aclosing(client.send(conversation, "theirs", options)) as events:
            async for _ in events:
                pass
        for command in (Say("mine"), Say("more")):
            await dialogue.perform(command)
        await client.undo(conversation)
        await dialogue.perform(Undo())
        await dialogue.perform(StartNew())
        await dialogue.perform(Say("fresh"))

    said = converse(tiny_model, tmp_path, work).splitlines()
    assert [line for line in said if not line.startswith("cached ")] == [
        "taken back: other",
        "note: 1 turn was added elsewhere",
        "note: 1 turn was taken back elsewhere",
        "taken back: mine",
        "new conversation",
    ]


def test_statistics_begin_with_the_conversation(tiny_model: Path, tmp_path: Path) -> None:
    """Its id is what --session takes; before the first message there is none."""
    found: list[str | None] = []

    async def work(dialogue: Dialogue, client: ChatClient) -> None:
        await dialogue.perform(ShowStats())
        await dialogue.perform(Say("one"))
        found.append(await client.latest_conversation())
        await dialogue.perform(ShowStats())

    said = converse(tiny_model, tmp_path, work).splitlines()
    ids = [line.split(maxsplit=1)[1] for line in said if line.startswith("conversation ")]
    assert said[0].startswith("conversation ")
    assert ids == ["none yet", found[0]]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (5.722125952008355, "5.72"),
        (0.0123456, "0.0123"),
        (0.0, "0"),
        (0.00004, "0"),
        (12345.678, "12,346"),
        (7, "7"),
        (1234567, "1,234,567"),
        ("8 pages", "8 pages"),
    ],
)
def test_statistics_are_rounded(value: float | str, shown: str) -> None:
    """Nobody reads sixteen digits; counts are exact."""
    assert figure(value) == shown


def test_statistics_are_for_people(tiny_model: Path, tmp_path: Path) -> None:
    """/stats shows its seconds rounded."""

    async def work(dialogue: Dialogue, client: ChatClient) -> None:
        await dialogue.perform(Say("one"))
        await dialogue.perform(ShowStats())

    lines = converse(tiny_model, tmp_path, work).splitlines()
    seconds = [line.split()[-1] for line in lines if " seconds " in line]
    assert len(seconds) >= 2
    assert max(map(len, seconds)) <= 7


def test_undo_shows_a_line(tiny_model: Path, tmp_path: Path) -> None:
    """A long message that is taken back is named by its beginning, on one line."""

    async def work(dialogue: Dialogue, client: ChatClient) -> None:
        await dialogue.perform(Say("word\n" * 100))
        await dialogue.perform(Undo())

    last = converse(tiny_model, tmp_path, work).splitlines()[-1]
    assert last == "taken back: " + ("word " * 12) + "…"


@pytest.mark.parametrize("command", [Say("two"), Edit(1, "two")])
def test_a_failure_after_acceptance_is_no_refusal(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Say | Edit
) -> None:
    """The message is stored: it is not given back to be sent twice, /regen gets its answer."""

    def full(engine: Engine, request: Request) -> None:
        raise EngineOverloaded(256, 256)

    async def work(dialogue: Dialogue, client: ChatClient) -> None:
        await dialogue.perform(Say("one"))
        with monkeypatch.context() as busy:
            busy.setattr(Engine, "submit", full)
            assert await dialogue.perform(command) is None
        assert dialogue.exit_code == 75
        turns = await dialogue.user_turns()
        assert turns[-1] == "two"
        assert await dialogue.perform(Regenerate()) is None
        assert await dialogue.user_turns() == turns

    first, failed, error, hint, again = converse(tiny_model, tmp_path, work).splitlines()
    assert "max tokens reached" in first
    assert failed.endswith(" · failed")
    assert error.startswith("error: ")
    assert hint == "your message is kept; /regen asks for its answer again"
    assert "max tokens reached" in again


class Picks:
    """Somebody who always presses the same key; asked: the keys that there were."""

    def __init__(self, key: str | None) -> None:
        self.asked: list[str] = []
        self._key = key

    async def choose(self, question: str, keys: str) -> str | None:
        self.asked.append(keys)
        return self._key


@pytest.mark.parametrize(("key", "index"), [("3", 2), (None, 0)])
def test_one_of_several_answers_goes_on(
    tiny_model: Path, tmp_path: Path, key: str | None, index: int
) -> None:
    """All are kept; the chosen one is the path's, and the last that /why and /copy know."""

    async def work(scene: ChatScene) -> None:
        scene.dialogue.chooser = somebody = Picks(key)
        await scene.do("one")
        shown = scene.answers.tell()
        await scene.do("/regen 3")
        assert somebody.asked == ["123"]
        tree = await scene.client.tree(scene.conversation)
        # The first has the seed of the answer that was there, and is the same message.
        answers = [m for m in tree if m.role == "assistant"]
        assert len(answers) == 3
        for answer in answers:
            assert without_controls(answer.text) in scene.answers.getvalue()[shown:]
        assert scene.dialogue.state.known[-1].id == answers[index].id
        last = scene.dialogue.state.last
        assert last is not None
        assert last.response in answers[index].responses
        await scene.do("two")

    in_chat(tiny_model, tmp_path, work, temperature=1.5, seed=1)


def test_several_answers_to_nothing(tiny_model: Path, tmp_path: Path) -> None:
    """Refused before the first message, and after it was taken back."""

    async def work(scene: ChatScene) -> None:
        assert "no turn yet" in await scene.refused("/regen 2")
        await scene.do("one", "/undo")
        assert "error: " in await scene.refused("/regen 2")
        assert "error: " in await scene.refused("/regen")

    in_chat(tiny_model, tmp_path, work)


def test_an_answer_that_was_cut_short_goes_on(tiny_model: Path, tmp_path: Path) -> None:
    """/continue shows the longer answer, from its beginning; the short one stays in the tree."""

    async def work(scene: ChatScene) -> None:
        assert "no turn yet" in await scene.refused("/continue")
        await scene.do("one")
        short, shown = scene.dialogue.state.known[-1], scene.answers.tell()
        await scene.do("/continue")
        longer = scene.dialogue.state.known[-1]
        assert scene.answers.getvalue()[shown:] == without_controls(longer.text) + "\n"
        assert longer.text.startswith(short.text)
        assert len(longer.text) > len(short.text)
        assert short.id in [m.id for m in await scene.client.tree(scene.conversation)]
        assert await scene.texts() == ["one"]

    in_chat(tiny_model, tmp_path, work)


def test_a_complete_answer_does_not_go_on(tiny_model: Path, tmp_path: Path) -> None:
    """/continue says that there is nothing to continue."""
    whole = ResponseFormat("choice", '["yes"]')

    async def work(scene: ChatScene) -> None:
        await scene.do("one")
        assert "complete" in await scene.refused("/continue")

    in_chat(tiny_model, tmp_path, work, response_format=whole)


def test_attachments_go_before_the_next_message(tiny_model: Path, tmp_path: Path) -> None:
    """Once, and only with a message that was accepted."""

    async def work(scene: ChatScene) -> None:
        scene.dialogue.state.attachments += ["a file", "another"]
        await scene.refused("x" * 1_000_000)
        assert scene.dialogue.state.attachments == ["a file", "another"]
        await scene.do("one", "two", "/regen")
        assert await scene.texts() == ["a file\n\nanother\n\none", "two"]
        assert scene.dialogue.state.attachments == []

    in_chat(tiny_model, tmp_path, work)


def test_a_refused_first_message_leaves_no_conversation(tiny_model: Path, tmp_path: Path) -> None:
    """Nothing empty is listed, and the next message begins anew, with the same system message."""

    async def work(scene: ChatScene) -> None:
        await scene.do("/system be brief")
        await scene.refused("x" * 1_000_000)
        assert await scene.client.conversations() == []
        assert scene.dialogue.state.made == []
        await scene.do("one")
        assert [m.text for m in scene.dialogue.state.known][:2] == ["be brief", "one"]

    in_chat(tiny_model, tmp_path, work)


def test_help_of_one_command(tiny_model: Path, tmp_path: Path) -> None:
    """/help WORD shows that one, /help all of them."""

    async def work(scene: ChatScene) -> None:
        assert await scene.do("/help edit") == [
            "/edit [N [TEXT]]  change your Nth message (the last without N), and answer it"
        ]
        everything = await scene.do("/help")
        assert all(any(line.startswith(word) for line in everything) for word in COMMANDS)
        assert "knows no command" in await scene.refused("/help nothing")

    in_chat(tiny_model, tmp_path, work)
