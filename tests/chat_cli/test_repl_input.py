"""What is typed at a chat's prompt, in a pseudo-terminal: pastes, edits, files, the clipboard."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from radixchat.server.store import Store
from radixchat.tests.chat_cli.chat_terminal import ChatTerminal
from radixchat.tests.chat_cli.scripted import messages_of, tiny_settings

EMPTY = r"^> ?\Z"
ELSEWHERE = {"SSH_TTY": "/dev/pts/0", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
ANSWER = "An answer.\n\n```py\nprint(1)\n```\n"

pytestmark = pytest.mark.slow


def chat(
    model: Path, *flags: str, columns: int = 80, environment: dict[str, str] | None = None
) -> ChatTerminal:
    """A chat whose answers are one text."""
    brief = ("-m", str(model), "--threads", "1", "-o", "choice", json.dumps([ANSWER]))
    variables = {**ELSEWHERE, **(environment or {})}
    return ChatTerminal("chat", *brief, *flags, columns=columns, environment=variables)


def leave(terminal: ChatTerminal) -> None:
    """Leave at an empty line."""
    terminal.wait_for(EMPTY)
    terminal.type("\x04")
    assert terminal.exit_code() == 0
    assert "Traceback" not in terminal.text


def user_messages(model: Path, folder: Path) -> list[str]:
    """The user's messages of the conversation that was used last."""
    settings = tiny_settings(model, folder / "data" / "sessions.db")
    return [message.text for message in messages_of(settings) if message.role == "user"]


def test_a_megabyte_that_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    """It is one message; it comes back into the line, and from the history of the next run."""
    text = ("x" * 79 + "\r") * 13_200
    with chat(tiny_model) as terminal:
        terminal.wait_for(EMPTY)
        terminal.type(f"\x1b[200~{text}\x1b[201~END")
        terminal.wait_for(r"^> \[pasted 13,200 lines\]END\Z")
        terminal.enter("")
        terminal.wait_for(r"error: the prompt has at least \d{6} tokens, but the context admits")
        terminal.wait_for(r"^> \[pasted 13,200 lines\]END\Z")
        terminal.type("\x03")
        terminal.enter("short")
        terminal.answered(1)
        leave(terminal)
    assert user_messages(tiny_model, tmp_path) == ["short"]
    with chat(tiny_model) as terminal:
        terminal.wait_for(EMPTY)
        terminal.type("\x1b[A\x1b[A")
        terminal.wait_for(r"^> \[pasted 13,200 lines\]END\Z")
        terminal.type("\x03")
        leave(terminal)


@pytest.mark.parametrize("columns", [20, 80])
def test_the_bottom_line(tiny_model: Path, columns: int) -> None:
    """It says who answers, and how warm the next turn is; nothing of it stays on the screen."""
    with chat(tiny_model, columns=columns) as terminal:
        terminal.wait_for(EMPTY)
        terminal.wait_until(lambda: "4,096" in terminal.screen.lines[-1], "context below")
        terminal.enter("hello")
        terminal.answered(1) if columns == 80 else terminal.wait_for(r"cached(?s:.)*^> ?\Z")
        terminal.wait_until(lambda: "warm" in terminal.screen.lines[-1], "warmth below")
        below = terminal.screen.lines[-1]
        assert len(below) < columns
        leave(terminal)
        assert below not in terminal.text
        assert "/4,096" not in terminal.text
        assert "\x1b[6n" not in terminal.raw


def test_an_edit(tiny_model: Path, tmp_path: Path) -> None:
    """What it costs is said before, then the text is there to be changed."""
    with chat(tiny_model) as terminal:
        terminal.wait_for(EMPTY)
        terminal.enter("hello")
        terminal.answered(1)
        terminal.enter("/edit")
        terminal.wait_for(r"^editing turn 1 recomputes \d+ tokens?.*\n(?s:.)*^edit 1> hello\Z")
        terminal.enter(" again")
        terminal.answered(2)
        terminal.enter("/edit 1 at once")
        terminal.wait_for("^editing turn 1 recomputes", times=2)
        terminal.answered(3)
        leave(terminal)
    assert user_messages(tiny_model, tmp_path) == ["at once"]


def test_multi(tiny_model: Path, tmp_path: Path) -> None:
    """The prompt shows it; Enter begins lines, Alt-Enter sends, commands are sent by both."""
    with chat(tiny_model) as terminal:
        terminal.wait_for(EMPTY)
        terminal.enter("/multi")
        terminal.wait_for(r"^multi> ?\Z")
        terminal.type("one\rtwo\x1b\r")
        terminal.answered(1)
        terminal.enter("/edit")
        terminal.wait_for(r"^edit 1 multi> one\n +two\Z")
        terminal.type("\x03\x04")
        terminal.wait_for(r"^multi> ?\Z")
        terminal.enter("/multi")
        terminal.wait_for("^Enter sends$")
        leave(terminal)
    assert user_messages(tiny_model, tmp_path) == ["one\ntwo"]


def test_files_and_clipboards(tiny_model: Path, tmp_path: Path) -> None:
    """A file goes before the message; /copy writes the terminal's clipboard; /paste reads none."""
    (tmp_path / "a file.txt").write_text("its text\n")
    with chat(tiny_model) as terminal:
        terminal.wait_for(EMPTY)
        terminal.enter(f"/attach {tmp_path}/nothing.txt")
        terminal.wait_for("error: there is no file")
        terminal.enter(f"/attach {tmp_path}/a file.txt")
        terminal.wait_for(r"attached a file.txt \(9 characters\)")
        terminal.enter("what is it?")
        terminal.answered(1)
        terminal.enter("/copy code")
        terminal.wait_for(r"copied code block 1 \(9 characters\) to the terminal's clipboard")
        assert terminal.screen.clipboard == "print(1)\n"
        terminal.enter("/copy")
        terminal.wait_for("copied the answer")
        assert terminal.screen.clipboard == ANSWER
        terminal.enter("/paste")
        terminal.wait_for("error: the clipboard cannot be read from here")
        leave(terminal)
    assert user_messages(tiny_model, tmp_path) == ["a file.txt:\n```\nits text\n```\n\nwhat is it?"]


def test_a_clipboard_of_this_desktop(tiny_model: Path, tmp_path: Path) -> None:
    """/paste puts it into the line, a huge one as its label, to be sent or changed."""
    program = tmp_path / "xclip"
    program.write_text("#!/bin/sh\nseq 30\n")
    program.chmod(0o700)
    desktop = {"SSH_TTY": "", "DISPLAY": ":9", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    with chat(tiny_model, environment=desktop) as terminal:
        terminal.wait_for(EMPTY)
        terminal.enter("/paste")
        terminal.wait_for(r"^> \[pasted 30 lines\]\Z")
        terminal.enter("!")
        terminal.answered(1)
        leave(terminal)
    numbers = "\n".join(map(str, range(1, 31)))
    assert user_messages(tiny_model, tmp_path) == [f"{numbers}\n!"]


def test_commands_of_a_terminal(tiny_model: Path) -> None:
    """A key says which answer goes on; Tab names conversations; /clear leaves the prompt only.

    Ctrl-C at an empty line, however often and fast, only says how to leave.
    """
    with chat(tiny_model) as terminal:
        terminal.wait_for(EMPTY)
        for times in (2, 3, 4):
            terminal.type("\x03")
            terminal.wait_for("Ctrl-D or /exit leaves", times=times)
            terminal.wait_for(EMPTY)
        terminal.enter("hello")
        terminal.answered(1)
        terminal.enter("/clear")
        terminal.wait_until(lambda: "hello" not in terminal.text, "empty screen")
        terminal.enter("/regen 2")
        terminal.wait_for(r"^which answer goes on\? .*\Z")
        terminal.type("x2")
        terminal.wait_for(r"^which answer goes on\? .* 2\n(?s:.)*^> ?\Z")
        terminal.enter("/save my first recipes")
        terminal.wait_for("my first recipes", times=2)
        terminal.wait_for(EMPTY)
        # What is below is read before the names, which the same task reads: wait for both.
        while not re.search(r"^> /switch my first recipes\Z", terminal.text, re.MULTILINE):
            terminal.type("\x03")
            terminal.wait_for(EMPTY)
            terminal.type("/switch my\t!\x7f")
            terminal.wait_for(r"^> /switch my.*\Z")
        terminal.type("\x03")
        leave(terminal)


def test_two_chats_at_once(tiny_model: Path, tmp_path: Path) -> None:
    """On one database: each has its own conversation; the next chat has the history of both."""
    with chat(tiny_model) as one, chat(tiny_model) as other:
        for terminal in (one, other):
            terminal.wait_for(EMPTY)
        for number, name in enumerate(("first", "second"), start=1):
            one.enter(f"{name} of one\\\rmore")
            other.enter(f"{name} of other")
            one.answered(number)
            other.answered(number)
        leave(one)
        leave(other)
    with Store(tmp_path / "data" / "sessions.db") as store:
        listed = store.conversations(principal="local", limit=9)
        assert {row.opening for row in listed} == {"first of one\nmore", "first of other"}
        assert [row.num_turns for row in listed] == [2, 2]
    with chat(tiny_model, "--no-history") as terminal:
        terminal.wait_for(EMPTY)
        terminal.enter("not kept")
        terminal.answered(1)
        terminal.type("\x1b[A\x1b[A\x1b[A")
        terminal.wait_for(r"^> not kept\Z")
        terminal.type("\x03")
        leave(terminal)
    with chat(tiny_model) as terminal:
        terminal.wait_for(EMPTY)
        terminal.type("\x12second of one")
        terminal.wait_for(r"^> second of one\n +more")
        terminal.type("\r\x1b[F\x03")
        terminal.wait_for(EMPTY)
        terminal.type("\x12not kept\r")
        terminal.wait_for(EMPTY)
        leave(terminal)


def test_a_history_that_cannot_be_written(tiny_model: Path, tmp_path: Path) -> None:
    """It is told once, in lines of its own, with the file and the reason."""
    place = tmp_path / "state" / "radixchat" / "history"
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "nowhere" / "history")
    with chat(tiny_model) as terminal:
        terminal.wait_for(EMPTY)
        terminal.enter("one")
        terminal.answered(1)
        terminal.enter("two")
        terminal.answered(2)
        leave(terminal)
        shown = terminal.text
    said = re.findall(r"^note: the input history cannot be written: No such file", shown, re.M)
    assert len(said) == 1
    assert str(place) in shown.replace("\n", "")
    assert re.findall(r"^> .+$", shown, re.MULTILINE) == ["> one", "> two"]


def test_bytes_that_are_no_text(tiny_model: Path) -> None:
    """They are told, nothing is sent, and the line can be put right."""
    with chat(tiny_model) as terminal:
        terminal.wait_for(EMPTY)
        os.write(terminal.process.child_fd, b"caf\xe9 au lait\r")
        terminal.wait_for("error: a byte was typed that is not UTF-8, 0xe9; nothing was sent")
        terminal.wait_for(r"^> caf.+ au lait\Z")
        terminal.type("\x03")
        terminal.enter("coffee")
        terminal.answered(1)
        leave(terminal)
