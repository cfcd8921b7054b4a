"""The conversation at a terminal: a real process, a real service, a pseudo-terminal."""

from __future__ import annotations

import re
import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from radixchat.server.local_principal import LOCAL_PRINCIPAL
from radixchat.server.store import Store
from radixchat.tests.chat_cli.chat_terminal import COMMAND, ChatTerminal
from radixchat.tests.chat_cli.scripted import messages_of, tiny_settings
from radixchat.tests.slow_steps import slow_command

BRIEF = ("--temperature", "0", "--max-tokens", "12", "--threads", "1")
SHELL_COMMAND = shlex.join(COMMAND)
MARKS = "*a* __b__ 1*2*3 <br> # x"
# An answer that goes on for two minutes on any machine: its 4,000 tokens are a step each.
ENDLESSLY = slow_command(0.03)
LONG = ("--temperature", "0", "--max-tokens", "4000", "--threads", "1", "--no-speculation")


@pytest.fixture
def model(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small model, by its variable."""
    monkeypatch.setenv("RADIXCHAT_MODEL", str(tiny_model))
    return tiny_model


@pytest.fixture
def chat(model: Path) -> Iterator[ChatTerminal]:
    """A chat with brief answers, at its first prompt."""
    with ChatTerminal("chat", *BRIEF) as terminal:
        terminal.wait_for(r"^> ?\Z")
        yield terminal


def test_a_conversation(chat: ChatTerminal) -> None:
    """Question, paste, unknown command, edit, undo, statistics, the hint of Ctrl-C, and the end."""
    chat.enter("hello")
    chat.answered(1)
    assert chat.text.count("max tokens reached") == 1

    chat.enter("\x1b[200~two\rlines\x1b[201~")
    chat.answered(2)
    assert "> two\n  lines\n" in chat.text

    chat.enter("/exitfoo")
    chat.wait_for("error: no command /exitfoo")
    chat.wait_for(r"^> ?\Z")

    chat.enter("/edit 1")
    chat.wait_for(r"^Enter sends the new text; .*\nedit 1> hello\Z")
    chat.enter(" again")
    chat.answered(3)

    chat.enter("/edit 99")
    chat.wait_for("no message 99 to edit; there are 1")
    chat.enter("/undo")
    chat.wait_for("taken back: hello again")
    chat.enter("/regen")
    chat.wait_for("error: .*no turn")
    chat.wait_for(r"^> ?\Z")
    chat.enter("/stats")
    chat.wait_for("cached tokens +[1-9]")

    chat.type("\x03")
    chat.wait_for("/exit leaves, /help lists the commands", times=2)
    chat.type("\x04")
    assert chat.exit_code() == 0
    assert "Traceback" not in chat.text
    assert "goes on here" not in chat.text  # its only turn was taken back


def test_an_answer_of_a_form_is_shown_as_it_is(model: Path) -> None:
    """A choice with marks of Markdown appears with every one of them."""
    with ChatTerminal("chat", *BRIEF, "--max-tokens", "40", "-o", "choice", f'["{MARKS}"]') as chat:
        chat.wait_for(r"^> ?\Z")
        chat.enter("hello")
        chat.answered(1)
        chat.type("\x04")
        assert chat.exit_code() == 0
        assert f"> hello\n{MARKS}\ncached " in chat.text


def test_stopping_and_continuing(model: Path) -> None:
    """Ctrl-C and Esc stop the answer, and only Esc keeps the keys before it; two Ctrl-C leave."""
    with ChatTerminal("chat", *LONG, command=ENDLESSLY) as chat:
        chat.wait_for(r"^> ?\Z")
        chat.enter("first")
        chat.wait_for(r"> first\n(?!loading )(?s:.)*\S\S\S")
        chat.type("blind\rlines\r/new\r\x03")
        chat.wait_for("stopped by you")
        chat.wait_for(r"^> ?\Z")
        chat.enter("second")
        chat.wait_for(r"> second\n(?s:.)*\S\S\S")
        assert "blind" not in chat.text
        assert "lines" not in chat.text
        chat.type("kept\x1b")
        chat.wait_for("stopped by you", times=2)
        chat.wait_for(r"^> kept\Z")
        chat.type("\x03\x03")
        chat.wait_for("/exit leaves, /help lists the commands", times=2)
        chat.enter("third")
        chat.wait_for(r"> third\n(?s:.)*\S\S\S")
        chat.type("\x03")
        chat.wait_for("stopped by you", times=3)
        chat.type("\x03")
        assert chat.exit_code() == 130
        command = re.search(r"`radixchat (chat --session conv_\w+)` goes on here\Z", chat.text)
        assert command is not None
    with ChatTerminal(*command[1].split(), *BRIEF, columns=200) as chat:
        chat.wait_for(r"^> ?\Z")
        assert "3 turns" in chat.text
        chat.type("\x04")
        assert chat.exit_code() == 0
        assert "Traceback" not in chat.text


def test_what_a_refusal_leaves_in_the_line(model: Path, tmp_path: Path) -> None:
    """A message is given back unless keys wait; a command is not, so nothing is added to it."""
    long = "\x1b[200~" + "word " * 5000 + "\x1b[201~END"
    with ChatTerminal("chat", *BRIEF, columns=200) as chat:
        chat.wait_for(r"^> ?\Z")
        chat.type("/undo\r/regen\rhello\r")
        chat.answered(1)
        assert chat.text.count("error: the conversation has no turn yet") == 2

        chat.enter(long)
        chat.wait_for(r"error: the prompt has (?s:.)*END\Z")
        chat.type("\x03")
        chat.wait_for(r"^> ?\Z")
        chat.type(long + "\rhi\r")
        chat.wait_for("note: your message was not sent; Up brings it back")
        chat.answered(2)
        assert "ENDhi" not in chat.text
        chat.type("\x1b[A\x1b[A")
        chat.wait_for(r"END\Z")
        chat.type("\x03\x04")
        assert chat.exit_code() == 0
    assert user_messages(model, tmp_path) == ["hello", "hi"]


def test_leaving_an_edit(chat: ChatTerminal, model: Path, tmp_path: Path) -> None:
    """Ctrl-D and Ctrl-C leave it and not the chat; a command in it is refused, never sent."""
    chat.enter("//one")
    chat.answered(1)
    for key in ("\x04", "\x03"):
        chat.enter("/edit")
        chat.wait_for(r"^edit 1> //one\Z")
        chat.type("\x03")
        chat.wait_for(r"^edit 1> ?\Z")
        chat.type(key)
        chat.wait_for(r"^> ?\Z")
    chat.enter("/edit 1")
    chat.wait_for(r"^edit 1> //one\Z")
    chat.type("\x03")
    for command, complaint in (("/exit", "/exit is no new text"), ("/bogus", "no command /bogus")):
        chat.enter(command)
        chat.wait_for(f"error: {complaint}")
        chat.wait_for(r"^edit 1> ?\Z")
    chat.enter("//two")
    chat.answered(2)
    chat.type("\x04")
    assert chat.exit_code() == 0
    assert user_messages(model, tmp_path) == ["/two"]


def user_messages(model: Path, folder: Path) -> list[str]:
    """The user's messages of the only conversation."""
    settings = tiny_settings(model, folder / "data" / "sessions.db")
    return [message.text for message in messages_of(settings) if message.role == "user"]


@pytest.mark.slow
def test_continuing(model: Path) -> None:
    """-c shows the last message and its interrupted answer, marked, and goes on from there."""
    with ChatTerminal("chat", *LONG, command=ENDLESSLY) as chat:
        chat.wait_for(r"^> ?\Z")
        for times, text in enumerate(("first", "two\\\rlines"), start=1):
            chat.enter(text)
            chat.wait_for(r"(first|  lines)\n(?!loading )(?s:.)*\S\S\S", times=1)
            chat.type("\x03")
            chat.wait_for("stopped by you", times=times)
            chat.wait_for(r"^> ?\Z")
        chat.enter("/exit")
        assert chat.exit_code() == 0

    with ChatTerminal("chat", "-c", *BRIEF) as chat:
        chat.wait_for(r"^> ?\Z")
        assert "2 turns" in chat.text
        assert "… 1 earlier turn\n> two\n> lines\n" in chat.text
        assert "this answer was cut short" in chat.text
        chat.enter("/regen")
        chat.answered(1)
        chat.process.kill(signal.SIGTERM)
        assert chat.exit_code() == 143


@pytest.mark.slow
def test_signals_during_an_answer(model: Path) -> None:
    """SIGTERM and a closed terminal stop the answer, keep it, and leave without a traceback."""
    for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        with ChatTerminal("chat", *LONG, command=ENDLESSLY) as chat:
            chat.wait_for(r"^> ?\Z")
            chat.enter("first")
            chat.wait_for(r"> first\n(?!loading )(?s:.)*\S\S\S")
            chat.process.kill(number)
            assert chat.exit_code() == code
            assert f"stopped by {number.name}" in chat.text
            assert "Traceback" not in chat.text


@pytest.mark.slow
def test_dumb_terminal(model: Path) -> None:
    """TERM=dumb: a prompt, plain text, not one escape sequence."""
    with ChatTerminal("chat", *BRIEF, environment={"TERM": "dumb"}) as chat:
        chat.wait_for(r"^> ?\Z")
        chat.enter("hello")
        chat.answered(1)
        chat.enter("/clear")
        chat.wait_for("error: this terminal cannot be cleared")
        chat.wait_for(r"^> ?\Z")
        chat.enter("/exit")
        assert chat.exit_code() == 0
        assert "\x1b" not in chat.raw


@pytest.mark.slow
def test_narrow_window_resized(model: Path) -> None:
    """At 20 columns, then wider, in the middle of an answer: one status line, one prompt."""
    # Rows for all that comes before Ctrl-C is heard: what leaves the screen stays as a copy.
    with ChatTerminal("chat", *LONG, command=ENDLESSLY, columns=20, rows=1000) as chat:
        chat.wait_for(r"^> ?\Z")
        chat.enter("first")
        chat.wait_for(r"> first\n(?!loading )(?s:.)*\S\S\S")
        chat.resize(60, 1000)
        chat.wait_for(r"> first\n(?!loading )(?s:.)*\S{30}")
        chat.resize(20, 1000)
        chat.type("\x03")
        chat.wait_for(r"stopped\s+by\s+you")
        chat.wait_for(r"^> ?\Z")
        chat.type("\x04")
        assert chat.exit_code() == 0
        assert chat.text.count("> first") == 1


@pytest.mark.slow
def test_answers_piped(model: Path, tmp_path: Path) -> None:
    """`| tee`: the prompt is on standard error, the pipe gets the answers alone."""
    pipe = f"{SHELL_COMMAND} chat {' '.join(BRIEF)} | cat > {tmp_path}/out"
    with ChatTerminal(command=("/bin/sh", "-c", pipe)) as chat:
        chat.wait_for(r"^> ?\Z")
        chat.enter("hello")
        chat.answered(1)
        chat.type("\x04")
        assert chat.exit_code() == 0
    answer = (tmp_path / "out").read_text(encoding="utf-8")
    assert answer.endswith("\n")
    assert "hello" not in answer
    assert "cached" not in answer


@pytest.mark.slow
def test_nowhere_to_draw(model: Path, tmp_path: Path) -> None:
    """With both outputs in files, a terminal's lines are turns, without a prompt."""
    files = f"> {tmp_path}/out 2> {tmp_path}/err"
    shell = f"{SHELL_COMMAND} chat {' '.join(BRIEF)} {files}"
    with ChatTerminal(command=("/bin/sh", "-c", shell)) as chat:
        chat.type("hello\n\x04")
        assert chat.exit_code() == 0
        assert chat.text == "hello"  # the terminal's own echo
    assert len((tmp_path / "err").read_text().splitlines()) == 1


@pytest.mark.slow
def test_piped_questions(model: Path) -> None:
    """Standard input piped, standard output a terminal: Markdown, status lines, no prompt."""
    shell = f"echo hello | {SHELL_COMMAND} chat {' '.join(BRIEF)}"
    with ChatTerminal(command=("/bin/sh", "-c", shell)) as chat:
        assert chat.exit_code() == 0
        assert chat.screen.lines[-1].startswith("cached ")
        assert "> " not in chat.text


@pytest.mark.slow
def test_json_at_a_terminal(model: Path) -> None:
    """--json at a terminal: a prompt, and an object per turn."""
    with ChatTerminal("chat", "--json", *BRIEF, columns=200) as chat:
        chat.wait_for(r"^> ?\Z")
        chat.enter("hello")
        chat.wait_for(r'^{"type": "turn"')
        chat.wait_for(r"^> ?\Z")
        chat.type("\x04")
        assert chat.exit_code() == 0
        assert not any(line.startswith("cached") for line in chat.screen.lines)


@pytest.mark.slow
def test_no_color(model: Path) -> None:
    """NO_COLOR: no colour from the prompt, the answer or the notes."""
    with ChatTerminal("chat", *BRIEF, environment={"NO_COLOR": "1"}) as chat:
        chat.wait_for(r"^> ?\Z")
        chat.enter("hello")
        chat.answered(1)
        chat.enter("/bogus")
        chat.wait_for("no command")
        chat.type("\x03\x04")
        assert chat.exit_code() == 0
        assert not re.search(r"\x1b\[(\d+;)*[349]\d[;m]", chat.raw)


@pytest.mark.slow
@pytest.mark.model
def test_leaving_in_the_middle_of_a_long_prompt(default_model: Path) -> None:
    """Two Ctrl-C leave at once while a prompt is computed that takes far longer."""
    with ChatTerminal("chat", "-m", str(default_model)) as chat:
        chat.wait_for(r"^> ?\Z")
        chat.type("\x1b[200~" + "word salad and more " * 1500 + "\x1b[201~")
        chat.wait_for("pasted 30,000 characters")
        chat.enter("")
        chat.wait_for("^…$")
        chat.type("\x03")
        time.sleep(0.1)
        chat.type("\x03")
        started = time.monotonic()
        assert chat.exit_code() == 130
        assert time.monotonic() - started < 10  # the deadline is 1 s; the machine may be busy
        assert "Traceback" not in chat.text


def test_deleted_elsewhere(chat: ChatTerminal, tmp_path: Path) -> None:
    """What was typed is kept, a way on is told, and none back to what is not there."""
    chat.enter("hello")
    chat.answered(1)
    with Store(tmp_path / "data" / "sessions.db") as store:
        for conversation in store.conversations(principal=LOCAL_PRINCIPAL, limit=9):
            store.delete_conversation(conversation.id, principal=LOCAL_PRINCIPAL)
    chat.enter("once more")
    chat.wait_for("error: this conversation was deleted elsewhere; /new begins another")
    chat.wait_for(r"your text is kept: Up brings it back\n> ?\Z")
    chat.type("\x1b[A")
    chat.wait_for(r"> once more\Z")
    chat.type("\x15\x04")
    assert chat.exit_code() == 0
    assert "goes on here" not in chat.text
