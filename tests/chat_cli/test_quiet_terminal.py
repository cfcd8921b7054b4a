"""The terminal while an answer streams: silent, and restored afterwards."""

from __future__ import annotations

import contextlib
import os
import pty
import termios

import pytest

from radixchat.chat_cli.quiet_terminal import QuietTerminal
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


def test_keys_are_kept() -> None:
    """What is typed during an answer is there for the next prompt, and was not echoed."""
    leader, follower = pty.openpty()
    terminal = QuietTerminal(follower, None)
    with terminal.quiet():
        os.write(leader, b"next")
        assert os.read(follower, 100) == b"next"
    os.set_blocking(leader, False)
    with pytest.raises(BlockingIOError):
        os.read(leader, 100)
    os.close(follower)
    os.close(leader)
