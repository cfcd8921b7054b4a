"""The input line on a screen: a real process in a pseudo-terminal, without a chat behind it."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from radixchat.chat_cli.pasted_text import label_of
from radixchat.tests.chat_cli.chat_terminal import ChatTerminal
from radixchat.tests.chat_cli.prompt_program import BOTTOM, COMMAND, described

PASTE = "\x1b[200~{}\x1b[201~"
EMPTY = r"^> ?\Z"
MEGABYTE = "".join(f"{number:078d}\n" for number in range(13_274)) + "the last line"
WIDE = "漢字かな交じり文 👩‍👩‍👧 and 🎉🎉🎉, 👍🏽 ⚠️ 🇩🇪 done"


@contextlib.contextmanager
def prompt(
    *arguments: str,
    columns: int = 80,
    rows: int = 24,
    environment: Mapping[str, str] | None = None,
) -> Iterator[ChatTerminal]:
    """The program at its first, empty line; at the end it waits for another one, and leaves."""
    with ChatTerminal(
        *arguments, command=COMMAND, columns=columns, rows=rows, environment=environment
    ) as terminal:
        terminal.wait_for(EMPTY)
        yield terminal
        terminal.wait_for(EMPTY)
        terminal.type("\x04")
        assert terminal.exit_code() == 0
        assert "Traceback" not in terminal.text


def paste(terminal: ChatTerminal, text: str) -> float:
    """Paste it, as terminals do, and read meanwhile; when the last byte was written."""
    ended: list[float] = []

    def write() -> None:
        terminal.type(PASTE.format(text.replace("\n", "\r")))
        ended.append(time.perf_counter())

    writing = threading.Thread(target=write)
    writing.start()
    terminal.wait_for(r"\[pasted .*\]\Z", seconds=60)
    writing.join()
    return ended[0]


def script(path: Path, text: str) -> str:
    """An executable file; as a command."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return shlex.quote(str(path))


def wait_for_last_line(terminal: ChatTerminal, line: str) -> None:
    """What stands below the input line is drawn last."""
    terminal.wait_until(lambda: terminal.screen.lines[-1] == line, line)


def test_a_megabyte_pasted(tmp_path: Path) -> None:
    """It is in the line at once, as its label; keys after it are quick; it is sent as its text."""
    assert len(MEGABYTE) > 1 << 20
    with prompt(str(tmp_path / "history")) as terminal:
        ended = paste(terminal, MEGABYTE)
        shown = time.perf_counter() - ended
        assert f"> {label_of(MEGABYTE)}" in terminal.text
        terminal.process.delaybeforesend = None  # pexpect would wait 50 ms before each
        started = time.perf_counter()
        for key in "abcdefghij":
            terminal.type(key)
            terminal.wait_for(rf"\]\w*{key}\Z")
        keys = (time.perf_counter() - started) / 10
        sys.stdout.write(
            f"1 MB shown {shown * 1000:.0f} ms after its last byte, {keys * 1000:.1f} ms a key\n"
        )
        # Drawn as text it took a minute, and each key seconds.
        assert shown < 10
        assert keys < 1
        terminal.enter("")
        terminal.wait_for(re.escape(described(MEGABYTE + "abcdefghij")))


@pytest.mark.slow
def test_a_label_is_one_character(tmp_path: Path) -> None:
    """The cursor steps over it; it is deleted, and comes back, as a whole."""
    text = "line\n" * 30
    with prompt(str(tmp_path / "history"), columns=40) as terminal:
        terminal.type("before ")
        paste(terminal, text)
        terminal.type(" after")
        terminal.wait_for(r"> before \[pasted 30 lines\] after\Z")
        terminal.type("\x1b[D" * 7 + "X")
        terminal.wait_for(r"before X\[pasted 30 lines\] after\Z")
        terminal.type("\x1b[C\x7f")
        terminal.wait_for(r"before X after\Z")
        terminal.type("\x1f\x1b[F!")  # undo, then the end of the line
        terminal.wait_for(r"before X\[pasted 30 lines\] after!\Z")
        terminal.enter("")
        terminal.wait_for(re.escape(described(f"before X{text} after!")))
    with prompt(str(tmp_path / "history")) as terminal:
        terminal.type("\x1b[A")
        terminal.wait_for(r"before X\[pasted 30 lines\] after!\Z")
        terminal.enter("")
        terminal.wait_for(re.escape(described(f"before X{text} after!")))
        terminal.enter("draft")
        terminal.wait_for(r"draft'\n> before X\[pasted 30 lines\] after!\Z")
        terminal.type("\x03")


@pytest.mark.slow
def test_a_long_line() -> None:
    """A line that is longer than a terminal's own would be, typed and pasted."""
    with prompt(columns=200) as terminal:
        text = "0123456789" * 1_000
        terminal.enter(text)
        terminal.wait_for(re.escape(described(text)))


@pytest.mark.slow
@pytest.mark.parametrize("columns", [20, 80])
def test_the_bottom_line(columns: int) -> None:
    """It takes one row below the line and is gone with the entry; the terminal is asked nothing."""
    with prompt(columns=columns) as terminal:
        below = (BOTTOM + "·" * columns)[: columns - 1]
        terminal.wait_until(lambda: terminal.screen.lines[-2:] == [">", below], below)
        terminal.enter("one")
        terminal.wait_for("got 'one'\n> ?\\Z")
        wait_for_last_line(terminal, below)
        assert terminal.screen.lines[:2] == ["> one", "got 'one'"]
        assert len(terminal.screen.lines) == 4
        assert "\x1b[6n" not in terminal.raw


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 3])
def test_a_window_that_changes_while_typing(times: int) -> None:
    """With wide characters in the line: there is one line, with the cursor at its end."""
    text = WIDE * times
    with prompt(columns=60, rows=200) as terminal:
        terminal.enter("first")
        terminal.wait_for("got 'first'")
        terminal.type(text)
        terminal.wait_for(r"done\Z")
        for columns in (20, 40, 20, 23, 60):
            terminal.resize(columns, 200)
            below = (BOTTOM + "·" * columns)[: columns - 1]
            wait_for_last_line(terminal, below)
            assert terminal.screen.lines[:2] == ["> first", "got 'first'"]
            assert sum(line.startswith("> 漢") for line in terminal.screen.lines) == 1
            assert "".join(terminal.screen.lines).count(BOTTOM[:10]) == 1
        terminal.type("X\x1b[D\x1b[D\x7fY\x1b[F")
        terminal.wait_for(r"doYeX\Z")
        terminal.enter("")
        terminal.wait_for(re.escape(described(text[:-2] + "YeX")))


@pytest.mark.slow
def test_the_same_at_twenty_columns_from_the_start() -> None:
    """Wide characters that do not fit a row's end: every one is there, and so is the cursor."""
    with prompt(columns=20) as terminal:
        text = "あ" * 60
        terminal.type(text)
        terminal.wait_for(r"あ\Z")
        rows = [line.strip("> ") for line in terminal.screen.lines if "あ" in line]
        assert "".join(rows) == text
        terminal.enter("!")
        terminal.wait_for(f"got '{text}!'")


def test_lines() -> None:
    """A paste is one message; Alt-Enter and backslash make lines; /multi turns Enter around."""
    with prompt() as terminal:
        terminal.enter(PASTE.format("one\rtwo\r\nthree"))
        terminal.wait_for(r"got 'one\\ntwo\\nthree'")
        terminal.enter("a\x1b\rb\\\rc")
        terminal.wait_for(r"got 'a\\nb\\nc'")
        terminal.enter("multi")
        terminal.wait_for("got 'multi'")
        terminal.type("x\ry\x1b\r")
        terminal.wait_for(r"got 'x\\ny'")
        terminal.enter("/multi")  # a command is sent by Enter there too
        terminal.wait_for("got '/multi'")


@pytest.mark.slow
def test_searching_the_history(tmp_path: Path) -> None:
    """Ctrl-R finds an entry of an earlier run, Enter takes it into the line, another sends it."""
    with prompt(str(tmp_path / "history")) as terminal:
        for entry in ("the first needle", "second", "third"):
            terminal.enter(entry)
            terminal.wait_for(f"got '{entry}'")
    with prompt(str(tmp_path / "history")) as terminal:
        terminal.type("\x1b[A")
        terminal.wait_for(r"> third\Z")
        terminal.type("\x12need")
        terminal.wait_for("^> the first needle")
        terminal.type("\r")
        terminal.wait_for(r"^> the first needle\Z")
        terminal.enter("")
        terminal.wait_for("got 'the first needle'")
        terminal.type("\x12third\x03")  # Ctrl-C leaves the search, not the program
        terminal.wait_for(EMPTY)


@pytest.mark.slow
def test_two_terminals(tmp_path: Path) -> None:
    """Entries of both are whole and in their order; each sees its own, the next run all."""
    path = tmp_path / "history"
    with prompt(str(path)) as one, prompt(str(path)) as other:
        for number in range(3):
            for terminal, name in ((one, "one"), (other, "other")):
                terminal.enter(f"{name} {number}\\\rmore")
                terminal.wait_for(f"got '{name} {number}")
        one.type("\x1b[A")
        one.wait_for(r"> one 2\n  more\Z")
        one.type("\x03")
    with prompt(str(path)) as terminal:
        for entry in ("other 2", "one 2", "other 1", "one 1", "other 0", "one 0"):
            terminal.type("\x1b[A")
            terminal.wait_for(rf"> {entry}\n  more\Z")
            terminal.type("\x1b[A")  # to the entry's first line
        terminal.type("\x03")
    assert len(path.read_bytes().splitlines()) == 6


@pytest.mark.slow
def test_no_history(tmp_path: Path) -> None:
    """Without a file Up has this run's entries, and nothing is written anywhere."""
    state = {"XDG_STATE_HOME": str(tmp_path)}
    with prompt(environment=state) as terminal:
        terminal.enter("secret")
        terminal.wait_for("got 'secret'")
        terminal.type("\x1b[A")
        terminal.wait_for(r"> secret\Z")
        terminal.type("\x03")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["\x18\x05", "\x07"])
def test_an_editor(tmp_path: Path, keys: str) -> None:
    """It gets the text, of labels too, in a file of the user's own, which is gone afterwards."""
    seen = tmp_path / "seen"
    editor = script(
        tmp_path / "an editor",
        f'cp "$1" {seen}; stat -c %a "$1" > {seen}.mode; echo "$1" > {seen}.name; '
        'echo drawn; printf "%s" " and more" >> "$1"',
    )
    text = "line\n" * 30 + "end"
    with prompt(environment={"VISUAL": editor, "EDITOR": "false"}) as terminal:
        terminal.type("typed ")
        paste(terminal, text)
        terminal.type(keys)
        terminal.wait_for(r"drawn\n(?s:.)*^> typed \[pasted 31 lines\] and more\Z")
        terminal.enter("")
        terminal.wait_for(re.escape(described(f"typed {text} and more")))
    assert seen.read_text() == f"typed {text}"
    assert (tmp_path / "seen.mode").read_text() == "600\n"
    assert not Path((tmp_path / "seen.name").read_text().strip()).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("editor", "said"),
    [
        ("false", "false failed (exit code 1); the text is as it was"),
        ("/nowhere/editor", "the editor /nowhere/editor of EDITOR cannot be found"),
        ("sh -c 'kill -TERM $$'", "sh failed (signal 15); the text is as it was"),
        ("'", "EDITOR is no command: '"),
    ],
)
def test_an_editor_that_fails(editor: str, said: str) -> None:
    """It says so, and the text stays."""
    with prompt(environment={"VISUAL": "", "EDITOR": editor}) as terminal:
        terminal.type("kept\x18\x05")
        terminal.wait_for(r"^error: (?s:.)*^> kept\Z")
        assert f"error: {said}" in terminal.text
        terminal.type("\x03")


@pytest.mark.slow
def test_interrupting_an_editor(tmp_path: Path) -> None:
    """A Ctrl-C in it is its own: the line is there afterwards."""
    editor = script(tmp_path / "editor", "trap 'echo trapped; exit 0' INT; echo waits; sleep 60")
    with prompt(environment={"VISUAL": editor}) as terminal:
        terminal.type("kept\x18\x05")
        terminal.wait_for("^waits")
        terminal.type("\x03")
        terminal.wait_for(r"trapped\n> kept\Z")
        assert "interrupted" not in terminal.text
        terminal.type("\x03")


@pytest.mark.slow
def test_completion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tab ends a word, lists what there is, and does nothing in a message."""
    monkeypatch.chdir(tmp_path)
    for name in ("notes one.txt", "notes two.txt", "other.txt"):
        (tmp_path / name).touch()
    with prompt(columns=40) as terminal:
        terminal.type("/sta\t")
        terminal.wait_for(r"> /stats\Z")
        terminal.type("\x03/e\t")
        terminal.wait_for(r"> /e\n/exit +/edit +/export\n> /e\Z")
        terminal.type("\x03/attach n\t")
        terminal.wait_for(r"> /attach notes\Z")
        terminal.type("\t")
        terminal.wait_for(r"> /attach notes\nnotes one.txt +notes two.txt\n> /attach notes\Z")
        assert BOTTOM not in terminal.text  # no copy of it stays above
        terminal.type("t\t!")
        terminal.wait_for(r"> /attach notes two.txt!\Z")
        terminal.type("\x03no command\t/e\t!")
        terminal.wait_for(r"> no command/e!\Z")
        terminal.type("\x03")


@pytest.mark.slow
def test_a_question() -> None:
    """One key answers; Enter is the first, Ctrl-C and Ctrl-D none; others are not heard."""
    with prompt() as terminal:
        for times, (keys, chosen) in enumerate(
            (("x2", "2"), ("\r", "1"), ("\x03", "None"), ("\x04", "None")), start=1
        ):
            terminal.enter("ask")
            terminal.wait_for(r"which\? \Z|which\?\Z")
            terminal.type(keys)
            terminal.wait_for(f"chose {chosen}\ngot 'ask'")
            terminal.wait_for(EMPTY)
            assert terminal.text.count("chose") == times


@pytest.mark.slow
def test_keys_before_a_question() -> None:
    """What was typed before it was there is no answer: the next line has it."""
    with prompt() as terminal:
        terminal.enter("ask later")
        terminal.wait_for("^asking later")
        terminal.type("2" + PASTE.format("pasted\rtoo"))
        terminal.wait_for(r"which\? ?\Z")
        assert "chose" not in terminal.text
        terminal.type("3")
        terminal.wait_for("chose 3")
        terminal.wait_for(r"> 2pasted\n  too\Z")
        terminal.type("\x03")


@pytest.mark.slow
def test_suspended_and_continued() -> None:
    """Ctrl-Z at the line gives the terminal back; in the foreground again the line is there."""
    shell = f"set -m; {shlex.join(COMMAND)}; echo stopped; read key; fg; exit"
    with ChatTerminal(command=("/bin/sh", "-c", shell)) as terminal:
        terminal.wait_for(EMPTY)
        terminal.type("half a\x1a")
        terminal.wait_for("^stopped")
        terminal.enter("")
        terminal.wait_for(r"> half a\Z")
        terminal.enter(" line")
        terminal.wait_for("got 'half a line'")
        terminal.type("\x04")
        assert terminal.exit_code() == 0


@pytest.mark.slow
def test_a_dumb_terminal(tmp_path: Path) -> None:
    """TERM=dumb: the same keys, and not one escape sequence."""
    editor = script(tmp_path / "editor", 'printf " edited" >> "$1"')
    with prompt(environment={"TERM": "dumb", "VISUAL": editor}) as terminal:
        terminal.enter("one")
        terminal.wait_for("got 'one'")
        terminal.type("/e\t")
        terminal.wait_for(r"/exit +/edit +/export\n> /e\Z")
        terminal.enter("xit")
        terminal.wait_for("got '/exit'")
        terminal.type("two\x07")
        terminal.wait_for(r"> two edited\Z")
        terminal.enter("")
        terminal.wait_for("got 'two edited'")
        terminal.enter("ask")
        terminal.wait_for(r"which\? ?\Z")
        terminal.type("2")
        terminal.wait_for("chose 2")
        assert "\x1b" not in terminal.raw


@pytest.mark.slow
def test_terminated_in_an_editor(tmp_path: Path) -> None:
    """SIGTERM ends the editor too, and the file is gone."""
    name = tmp_path / "name"
    editor = script(tmp_path / "editor", f'echo "$1" > {name}; echo waits; exec sleep 60')
    with ChatTerminal(command=COMMAND, environment={"VISUAL": editor}) as terminal:
        terminal.wait_for(EMPTY)
        terminal.type("text\x07")
        terminal.wait_for("^waits")
        terminal.process.kill(15)
        assert terminal.exit_code() == 143
        assert "Traceback" not in terminal.text
    assert not Path(name.read_text().strip()).exists()
