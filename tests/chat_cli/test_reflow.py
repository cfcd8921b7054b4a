"""The input line in a real terminal whose window changes: what stands above it stays as it is."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from radixchat.tests.chat_cli.prompt_program import BOTTOM, COMMAND

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

OUTPUT = [f"LINE{number:02d}" for number in range(1, 31)]
LONG = "word " * 20  # in 80 columns two rows, in 20 seven


class Tmux:
    """A server of its own, with one window of 80 columns and 24 rows."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-f", os.devnull, "-S", str(self._socket), *arguments],
            env=dict(os.environ),  # else that of C, in which readline has set COLUMNS
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def start(self, output: list[str]) -> None:
        """The program at its first line, below this output."""
        print_output = shlex.join(["printf", "%s\\n", *output])
        begin = f"{print_output}; " if output else ""
        self("new-session", "-d", "-x", "80", "-y", "24", f"{begin}exec {shlex.join(COMMAND)}")
        self.wait_for_end(">", below(80))

    @property
    def lines(self) -> list[str]:
        """All that there is, the scrollback first."""
        return self("capture-pane", "-p", "-S", "-").rstrip("\n").split("\n")

    def wait_for(self, is_there: Callable[[list[str]], bool]) -> list[str]:
        """What there is, as soon as this is true of it."""
        deadline = time.monotonic() + 300
        while not is_there(lines := self.lines):
            assert time.monotonic() < deadline, "\n".join(lines)
            time.sleep(0.02)
        return lines

    def wait_for_end(self, *end: str) -> list[str]:
        """What there is, as soon as it ends with these lines."""
        return self.wait_for(lambda lines: lines[-len(end) :] == list(end))

    def resize(self, columns: int, rows: int) -> None:
        """Until the program has been told, which tmux does later than it wraps."""
        self("resize-window", "-x", str(columns), "-y", str(rows))
        with Path(self("display-message", "-p", "#{pane_tty}").strip()).open("rb") as terminal:
            deadline = time.monotonic() + 300
            while os.get_terminal_size(terminal.fileno()) != (columns, rows):
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def type(self, keys: str) -> None:
        """As they are."""
        self("send-keys", "-l", keys)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    """It is gone after the test, with what runs in it."""
    server = Tmux(tmp_path / "socket")
    yield server
    server("kill-server")


def below(columns: int) -> str:
    """What stands below the line."""
    return (BOTTOM + "·" * columns)[: columns - 1]


def drawn(text: str, columns: int) -> list[str]:
    """The rows of the line; all but the first one are indented, as far as the prompt reaches."""
    width = columns - len("> ")
    rows = [f"  {text[at : at + width]}".rstrip() for at in range(0, len(text), width)]
    return [f"> {text[:width]}".rstrip(), *rows[1:]]


@pytest.mark.parametrize(
    "sizes",
    [
        [(80, 5), (80, 24)],
        [(80, 2), (80, 30)],
        [(20, 24), (80, 24)],
        [(20, 5), (80, 24)],
        [(60, 24), (40, 12), (20, 24), (80, 24)],
    ],
)
def test_a_window_that_changes_ten_times(tmux: Tmux, sizes: list[tuple[int, int]]) -> None:
    """The scrollback is the output, once, then the line and what stands below it; nothing else."""
    tmux.start(OUTPUT)
    for _ in range(10):
        for columns, rows in sizes:
            tmux.resize(columns, rows)
            tmux.type("x")  # seen in the new window: nothing else need have changed there
            tmux.wait_for_end("> x", below(columns))
            tmux.type("\x7f")
            lines = tmux.wait_for_end(">", below(columns))
            assert lines == [*OUTPUT, ">", below(columns)]
    tmux.type("done\r")
    lines = tmux.wait_for_end("got 'done'", ">", below(80))
    assert lines == [*OUTPUT, "> done", "got 'done'", ">", below(80)]


@pytest.mark.parametrize("size", [(80, 5), (20, 24), (20, 6), (8, 5)])
def test_a_long_line_in_a_window_that_changes(tmux: Tmux, size: tuple[int, int]) -> None:
    """Rows of it that the terminal has put out of reach may stay; no output is lost."""
    tmux.start(OUTPUT)
    tmux.type(LONG)
    tmux.wait_for_end(*drawn(LONG, 80), below(80))
    text = LONG
    for change in range(10):
        for columns, rows in (size, (80, 24)):
            tmux.resize(columns, rows)
            text += str(change)
            tmux.type(str(change))
            lines = tmux.wait_for_end(*drawn(text, columns)[-2:], below(columns))
            assert lines[: len(OUTPUT)] == OUTPUT


def test_a_line_at_the_top_of_the_window(tmux: Tmux) -> None:
    """It is drawn again when it is entered; no copy of it is put into the scrollback."""
    tmux.start([])
    tmux.type("first\r")
    lines = tmux.wait_for_end("got 'first'", ">", below(80))
    assert lines == ["> first", "got 'first'", ">", below(80)]
