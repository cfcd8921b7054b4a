"""What a chat is about: entered, left, looked at again; and what it has earned."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.engine.hint import Hint, Observe, Signal
from radixchat.engine.thread import EngineThread
from radixchat.server.protocol import ConversationNotFound, ErrorInfo, InvalidRequest
from radixchat.tests.chat_cli.chat_scene import ChatScene, in_chat


def test_before_there_is_a_conversation(tiny_model: Path, tmp_path: Path) -> None:
    """Nothing is looked at, and what needs one says so."""

    async def work(scene: ChatScene) -> None:
        state = scene.dialogue.state
        await state.look()
        await state.look_elsewhere()
        await state.leave()
        assert state.stored is None
        with pytest.raises(InvalidRequest, match="no turn yet"):
            state.require_conversation()

    in_chat(tiny_model, tmp_path, work)


def test_entering_what_is_not_there_changes_nothing(tiny_model: Path, tmp_path: Path) -> None:
    """One stays where one was."""

    async def work(scene: ChatScene) -> None:
        await scene.do("/system be brief", "one")
        state = scene.dialogue.state
        before = (state.conversation, state.known, state.system, state.last)
        with pytest.raises(ConversationNotFound):
            await state.enter("conv_0123456789ABCDEFGHJKMNPQRS")
        assert (state.conversation, state.known, state.system, state.last) == before

    in_chat(tiny_model, tmp_path, work)


def test_what_a_path_is_known_of(tiny_model: Path, tmp_path: Path) -> None:
    """After each command it is the path as it is stored; what was left out is forgotten with it."""

    async def work(scene: ChatScene) -> None:
        state = scene.dialogue.state
        await scene.do("one", "two")
        for line in (
            "/edit 1 other",
            "/undo",
            "/switch #1",
            "/regen",
            "/continue",
            "/fork",
            "/system be brief",
            "/regen 2",
            "three",
        ):
            await scene.do(line)
            assert list(state.known) == await scene.client.messages(scene.conversation), line
        assert "elsewhere" not in scene.errors.getvalue()
        state.left_out = ("msg_1",)
        await scene.do("/new")
        assert not state.left_out
        assert not state.known
        assert state.last is None

    in_chat(tiny_model, tmp_path, work)


def test_a_system_message_changed_elsewhere_is_told(tiny_model: Path, tmp_path: Path) -> None:
    """As that, and not as turns that were taken back and added."""

    async def work(scene: ChatScene) -> None:
        await scene.do("/system be brief", "one")
        await scene.client.update_conversation(scene.conversation, system="be long")
        told = await scene.do("/system", "/system")
        assert told == ["note: the system message was changed elsewhere", "be long", "be long"]
        assert scene.dialogue.state.system == "be long"

    in_chat(tiny_model, tmp_path, work)


def test_the_first_failure_counts(tiny_model: Path, tmp_path: Path) -> None:
    """It is said, and decides the exit code; one of the engine ends the run."""

    async def work(scene: ChatScene) -> None:
        state = scene.dialogue.state
        state.note_failure(None)
        assert state.exit_code == 0
        busy = ErrorInfo("conversation_locked", 409, "being answered\x1b", {})
        assert state.say_failed(busy) is busy
        state.note_failure(ErrorInfo("engine_failed", 500, "broken", {}))
        assert (state.exit_code, state.engine_failed) == (75, True)
        assert scene.errors.getvalue() == "error: being answered␛\n"

    in_chat(tiny_model, tmp_path, work)


def test_what_is_left_is_closed(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/new and /switch tell the cache that nobody is about to go on; /fork does not."""
    closed: list[str] = []

    async def work(scene: ChatScene) -> None:
        await scene.do("one")
        first = scene.conversation
        await scene.do("/fork")
        second = scene.conversation
        assert closed == []
        await scene.do(f"/switch {first}")
        assert closed == [second]
        await scene.do("/new", "/new")
        assert closed == [second, first]

    hint = EngineThread.hint

    def seen(thread: EngineThread, told: Hint) -> None:
        if isinstance(told, Observe) and told.signal is Signal.CLOSED:
            closed.append(told.conversation)
        hint(thread, told)

    monkeypatch.setattr(EngineThread, "hint", seen)
    in_chat(tiny_model, tmp_path, work)
