"""Answers on a real terminal and on real pipes, as a process writes them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from radixchat.chat_cli.control_characters import without_controls
from radixchat.tests.chat_cli.answer_program import COMMAND
from radixchat.tests.chat_cli.chat_terminal import COMMAND as CHAT
from radixchat.tests.chat_cli.chat_terminal import ChatTerminal
from radixchat.tests.chat_cli.test_markdown_answer import SAMPLE, streamed

TABLE = "| animal | sign | 名前 |\n|---|:---:|---:|\n" + "".join(
    f"| whale{number} | 🐳 👩‍👩‍👧 | 鯨 |\n" for number in range(4)
)
HOSTILE = "safe\rEVIL \x1b]52;c;ZXZpbA==\x07 \x1b[2J \x9b31m \x1b]0;never ended \x7f\x08 é\n"
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3|4|9|10)[0-7](?:;|m)")


def piped(
    *pieces: str, flags: tuple[str, ...] = (), environment: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[bytes]:
    """The program with pipes."""
    return subprocess.run(
        [*COMMAND, json.dumps(pieces), *flags],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


def on_a_terminal(
    *pieces: str, columns: int = 60, environment: Mapping[str, str] | None = None
) -> ChatTerminal:
    """The program in a pseudo-terminal."""
    command = (*COMMAND, json.dumps(pieces))
    return ChatTerminal(command=command, columns=columns, environment=environment)


def finished(terminal: ChatTerminal, pieces: int) -> str:
    """All that it wrote, with a key pressed after each piece."""
    for _ in range(pieces):
        terminal.type(" ")
    terminal.wait_for("error: ")
    assert terminal.exit_code() == 0
    return terminal.raw


def test_a_pipe() -> None:
    """The answer alone on standard output, without control characters; the rest on the other."""
    done = piped("# Head\n", HOSTILE)
    assert done.stdout.decode() == without_controls(f"# Head\n{HOSTILE}\n")
    *status, note, error = done.stderr.decode().splitlines()
    assert status[0].startswith("cached ")
    assert (note, error) == (
        "note: a note ␛[31mof 漢\ufffdothers",
        "error: an errorof \ufffd2Jothers",
    )


def test_raw_and_quiet() -> None:
    """With --raw a pipe has the model's bytes, with -q standard error has the error only."""
    done = piped("# Head\n", HOSTILE, flags=("--raw", "--quiet"))
    assert done.stdout.decode() == f"# Head\n{HOSTILE}\n"
    assert done.stderr.decode() == "error: an errorof \ufffd2Jothers\n"


def test_json() -> None:
    """One line, in which nothing is left that a terminal would obey."""
    done = piped(HOSTILE, flags=("--json",))
    assert done.stdout.decode().rstrip("\n").isprintable()
    assert json.loads(done.stdout)["output_text"] == HOSTILE


@pytest.mark.parametrize(
    ("environment", "escapes", "colours"),
    [
        ({}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, False),
    ],
)
def test_variables_on_a_pipe(environment: dict[str, str], escapes: bool, colours: bool) -> None:
    """FORCE_COLOR gives a pipe styles, NO_COLOR takes the colours away, TERM=dumb all of it."""
    done = piped("**bold** `code`\n\n```python\ndef f(): pass\n```\n", environment=environment)
    text = done.stdout.decode()
    assert ("\x1b[" in text) is escapes
    assert bool(COLOUR.search(text)) is colours
    assert ("\x1b[31m" in done.stderr.decode()) is colours
    assert not re.search(r"\x1b\[[0-9;?]*[^0-9;?m]", text)  # styles, but never a movement


def test_columns() -> None:
    """COLUMNS says where a line breaks."""
    done = piped("some words to wrap", environment={"FORCE_COLOR": "1", "COLUMNS": "12"})
    assert done.stdout.decode() == "some words\nto wrap\n"


def test_a_reader_that_leaves() -> None:
    """`| head -1`: the process ends quietly, with the exit code of SIGPIPE."""
    reading = subprocess.Popen(
        [*COMMAND, json.dumps(["line\n", *["more\n" * 20] * 1000])],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert reading.stdout is not None
    assert reading.stderr is not None
    assert reading.stdout.readline() == b"line\n"
    reading.stdout.close()
    assert reading.stderr.read() == b""
    reading.stderr.close()
    assert reading.wait(60) == 141


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "escapes", "colours"),
    [
        ({}, True, True),
        ({"NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_variables_on_a_terminal(environment: dict[str, str], escapes: bool, colours: bool) -> None:
    """NO_COLOR leaves the Markdown, TERM=dumb gets the text as it was written."""
    piece = "**bold** `code`\n\n```python\ndef f(): pass\n```\n"
    with on_a_terminal(piece, environment=environment) as terminal:
        raw = finished(terminal, 1)
    assert ("\x1b" in raw) is escapes
    assert bool(COLOUR.search(raw)) is colours
    assert ("**bold**" in raw) is (not escapes)


@pytest.mark.slow
def test_nothing_of_others_reaches_the_terminal() -> None:
    """Escapes of the answer, of a note and of an error are pictures; the screen knows only ours."""
    with on_a_terminal(HOSTILE, "`\x1b[8m`\n\n```\n\x1b[2J\n```\n") as terminal:
        raw = finished(terminal, 2)
        text = terminal.text
    assert "␛]52;c;ZXZpbA==␇" in text
    assert "safeEVIL" in text
    for sequence in ("\x1b]", "\x1b[2J", "\x1b[8m", "\x9b", "\x7f", "\x08"):
        assert sequence not in raw


@pytest.mark.slow
@pytest.mark.parametrize("rows", range(1, 4))
def test_resize_at_twenty_columns_in_an_emoji_table(rows: int) -> None:
    """The window becomes twenty columns wide in the middle: nothing twice, nothing lost."""
    lines = TABLE.splitlines(keepends=True)
    first = "Look at the whales.\n\n" + "".join(lines[: 2 + rows])
    with on_a_terminal(first, "".join(lines[2 + rows :])) as terminal:
        terminal.wait_for(f"whale{rows - 1}")
        terminal.resize(20, 24)
        finished(terminal, 2)
        shown = terminal.screen.lines
    expected = ["Look at the whales.", "", *streamed([TABLE], 20)]
    assert shown[: len(expected)] == expected


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_resize_in_tmux(tmp_path: Path) -> None:
    """The same in a real terminal: its scrollback has the table once, and no mark of waiting."""
    lines = TABLE.splitlines(keepends=True)
    # tmux keeps the cursor's row, so that as many rows leave at the top as are wrapped: not ours.
    prose = "Look at the whales.\n\n" * 5
    pieces = [prose + "".join(lines[:4]), "".join(lines[4:])]
    command = f"{shlex.join([*COMMAND, json.dumps(pieces)])}; cat"

    def tmux(*arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-f", os.devnull, "-S", str(tmp_path / "socket"), *arguments],
            env=dict(os.environ),  # else that of C, in which readline has set COLUMNS
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def shown(until: str) -> list[str]:
        deadline = time.monotonic() + 60
        while not re.search(until, text := tmux("capture-pane", "-p", "-S", "-")):
            assert time.monotonic() < deadline, text
            time.sleep(0.02)
        return text.rstrip("\n").split("\n")

    tmux("new-session", "-d", "-x", "60", "-y", "24", command)
    try:
        shown("whale1")
        tmux("resize-window", "-x", "20", "-y", "24")
        # tmux has made the rows narrow by now, and tells the program up to 250 ms later.
        with Path(tmux("display-message", "-p", "#{pane_tty}").strip()).open("rb") as terminal:
            deadline = time.monotonic() + 60
            while os.get_terminal_size(terminal.fileno()).columns != 20:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        tmux("send-keys", " ")
        shown("whal[\\s\\S]*" * 4)
        tmux("send-keys", " ")
        text = shown("error: ")
    finally:
        tmux("kill-server")
    table = text[: next(i for i, line in enumerate(text) if line.startswith("cached "))]
    assert table[:10] == ["Look at the whales.", ""] * 5
    assert [line.split()[0] for line in table[10:]] == ["anim…", "─" * 18, *["whal…"] * 4]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [20, 80])
def test_the_scrollback_is_the_document(columns: int) -> None:
    """A document of every construct, drawn as it comes: what stays is what it is as a whole."""
    pieces = re.findall(r"[\s\S]{1,40}", SAMPLE)
    with on_a_terminal(*pieces, columns=columns) as terminal:
        finished(terminal, len(pieces))
        shown = terminal.screen.lines
    expected = streamed([SAMPLE], columns)
    assert shown[: len(expected)] == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "answers"), [(b"", 0), (b"\n \n\n", 0), (b"one", 1), (b"one\n\ntwo\n/exit\nthree", 2)]
)
def test_a_chat_on_pipes(tiny_model: Path, typed: bytes, answers: int) -> None:
    """Empty input ends quietly, the end of it does too, and the pipes get text only."""
    done = subprocess.run(
        [*CHAT, "chat", "-m", str(tiny_model), "--max-tokens", "3", "--threads", "1"],
        input=typed,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr.decode().count("cached ") == answers
    assert (done.stdout == b"") is (answers == 0)
    for output in (done.stdout, done.stderr):
        assert output.decode() == without_controls(output.decode())


@pytest.mark.slow
def test_a_chat_in_quiet(tiny_model: Path) -> None:
    """With -q nothing is said but errors, and the exit code tells of these."""
    command = [*CHAT, "chat", "-q", "-m", str(tiny_model), "--max-tokens", "3", "--threads", "1"]
    done = subprocess.run(
        command, input=b"one\n/nothing\n", capture_output=True, timeout=60, check=False
    )
    assert done.stdout.endswith(b"\n")
    (error,) = done.stderr.decode().splitlines()
    assert error.startswith("error: ")
    assert done.returncode == 1
