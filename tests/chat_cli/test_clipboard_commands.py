"""/copy and /attach: what they take and give, in a chat over the real service."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import pytest

from radixchat.chat_cli.answer_settings import answer_setting
from radixchat.tests.chat_cli.chat_scene import ChatScene, in_chat
from radixchat.tests.chat_cli.consoles import Recording

ANSWER = "Two:\n```py\nprint(1)\n```\n- in a list\n  ```\n  second\n  ```"


def terminal_elsewhere(monkeypatch: pytest.MonkeyPatch) -> Recording:
    """Standard error is a terminal somewhere else, without a desktop here."""
    stream = Recording(terminal=True)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("SSH_TTY", "/dev/pts/0")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return stream


def copied(terminal: Recording) -> str:
    """What was written to the terminal's clipboard last."""
    data = terminal.getvalue().rpartition("\x1b]52;c;")[2].removesuffix("\x07")
    return base64.b64decode(data).decode()


def test_copy(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer, or one of its code blocks; what there is not is told."""
    terminal = terminal_elsewhere(monkeypatch)

    async def work(chat: ChatScene) -> None:
        assert "there is no answer yet to copy" in await chat.refused("/copy")
        state = chat.dialogue.state
        state.options = answer_setting("choice").change(state.options, json.dumps([ANSWER]))
        said = await chat.do("hello", "/copy")
        assert f"copied the answer ({len(ANSWER)} characters) to the terminal's" in said[-1]
        assert copied(terminal) == ANSWER
        assert "copied code block 2 (7 characters)" in (await chat.do("/copy code 2"))[0]
        assert copied(terminal) == "second\n"
        assert "the answer has 2 code blocks, and no number 3" in await chat.refused("/copy code 3")
        state.options = answer_setting("choice").change(state.options, '["no code"]')
        await chat.do("again")
        assert "the answer has no code block" in await chat.refused("/copy code")

    in_chat(tiny_model, tmp_path, work, max_output_tokens=200)


def test_copy_without_a_terminal(tiny_model: Path, tmp_path: Path) -> None:
    """A script's output gets no escape sequence; the command is refused."""

    async def work(chat: ChatScene) -> None:
        await chat.do("hello")
        assert "there is no terminal" in await chat.refused("/copy")

    in_chat(tiny_model, tmp_path, work)


def test_attach(tiny_model: Path, tmp_path: Path) -> None:
    """Files stand before the next message, in their order, and only before that."""
    (tmp_path / "a.txt").write_text("first\n")
    (tmp_path / "b.txt").write_text("```second```")

    async def work(chat: ChatScene) -> None:
        assert await chat.do(f"/attach {tmp_path}/a.txt") == ["attached a.txt (6 characters)"]
        await chat.do(f"/attach {tmp_path}/b.txt", "and?", "next")
        assert await chat.texts() == [
            "a.txt:\n```\nfirst\n```\n\nb.txt:\n````\n```second```\n````\n\nand?",
            "next",
        ]
        assert f"there is no file {tmp_path}/c.txt" in await chat.refused(
            f"/attach {tmp_path}/c.txt"
        )

    in_chat(tiny_model, tmp_path, work)


def test_attachments_of_a_refused_message(tiny_model: Path, tmp_path: Path) -> None:
    """They are still there, for the message that is sent instead."""
    (tmp_path / "a.txt").write_text("short")

    async def work(chat: ChatScene) -> None:
        await chat.do(f"/attach {tmp_path}/a.txt")
        await chat.refused("word " * 9000)
        await chat.do("shorter")
        assert await chat.texts() == ["a.txt:\n```\nshort\n```\n\nshorter"]

    in_chat(tiny_model, tmp_path, work)
