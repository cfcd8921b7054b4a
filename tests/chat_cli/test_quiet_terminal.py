"""The terminal while an answer streams: silent, and restored afterwards."""

from __future__ import annotations

import contextlib
import os
import pty
import shlex
import sys
import termios
import time

import pytest

from radixchat.chat_cli.quiet_terminal import QuietTerminal
from radixchat.tests.chat_cli.chat_terminal import ChatTerminal
from radixchat.tests.chat_cli.consoles import Recording


def flags(fd: int) -> int:
    local: int = termios.tcgetattr(fd)[3]
    return local


def test_quiet_and_restored() -> None:
    """No echo and no line editing meanwhile, Ctrl-C still a signal; as before afterwards."""
    leader, follower = pty.openpty()
    screen = Recording()
    before = termios.tcgetattr(follower)
    terminal = QuietTerminal(follower, screen)
    with contextlib.suppress(ValueError), terminal.quiet():
        assert not flags(follower) & (termios.ECHO | termios.ICANON)
        assert flags(follower) & termios.ISIG
        os.write(leader, b"typed")
        raise ValueError("in between")
    assert termios.tcgetattr(follower) == before
    assert screen.getvalue() == "\x1b[?2004h\x1b[?2004l"
    os.close(follower)
    os.close(leader)
    terminal.restore()


def test_keys_are_those_of_a_prompt() -> None:
    """What is typed during an answer is not echoed, and Enter is the same byte as at a prompt."""
    leader, follower = pty.openpty()
    with QuietTerminal(follower, None).quiet():
        os.write(leader, b"next\r\n")
        assert os.read(follower, 100) == b"next\r\n"
    os.set_blocking(leader, False)
    with pytest.raises(BlockingIOError):
        os.read(leader, 100)
    os.close(follower)
    os.close(leader)


QUIET = """
import contextlib, time
from radixchat.chat_cli.quiet_terminal import QuietTerminal
with contextlib.suppress(KeyboardInterrupt), QuietTerminal(0, None).quiet():
    print("silence", flush=True)
    time.sleep(60)
"""


def wait_for_echo(terminal: ChatTerminal, *, on: bool) -> None:
    """Wait until the terminal echoes, or no longer does."""
    deadline = time.monotonic() + 20
    while terminal.process.getecho() is not on:
        assert time.monotonic() < deadline, terminal.text
        time.sleep(0.01)


def test_suspended_and_continued() -> None:
    """Ctrl-Z leaves the terminal as it was; in the foreground again it is silent again."""
    shell = f"set -m; {shlex.join([sys.executable, '-c', QUIET])}; echo stopped; read key; fg; exit"
    with ChatTerminal(command=("/bin/sh", "-c", shell)) as terminal:
        terminal.wait_for("^silence")
        assert not terminal.process.getecho()
        terminal.type("\x1a")
        terminal.wait_for("^stopped")
        wait_for_echo(terminal, on=True)
        terminal.enter("")
        wait_for_echo(terminal, on=False)
        terminal.type("\x03")
        assert terminal.exit_code() == 0
        assert "Traceback" not in terminal.text


def test_a_suspension_that_nobody_could_end() -> None:
    """Without a shell to continue it the kernel stops nothing; the terminal stays silent."""
    with ChatTerminal(command=(sys.executable, "-c", QUIET)) as terminal:
        terminal.wait_for("^silence")
        terminal.type("\x1a")
        time.sleep(0.1)
        wait_for_echo(terminal, on=False)
        terminal.type("\x03")
        assert terminal.exit_code() == 0
