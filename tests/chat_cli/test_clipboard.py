"""The clipboard: whose it is, what a terminal's can take, and where there is none."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from radixchat.chat_cli.clipboard import MAX_TERMINAL_BYTES, Clipboard
from radixchat.server.protocol import InvalidRequest
from radixchat.tests.chat_cli.consoles import Recording


def terminal_elsewhere(monkeypatch: pytest.MonkeyPatch) -> Recording:
    """Standard error is a terminal somewhere else, without a desktop here."""
    stream = Recording(terminal=True)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("SSH_TTY", "/dev/pts/0")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return stream


def of_this_process() -> Clipboard:
    found = Clipboard.of_this_process()
    assert found is not None
    return found


def test_a_terminals_clipboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """One escape sequence writes it, whatever is in the text."""
    terminal = terminal_elsewhere(monkeypatch)
    text = "Größe\x07\x1b\\ 👩‍👩‍👧\n"
    assert "the terminal's clipboard" in asyncio.run(of_this_process().write(text))
    data = terminal.getvalue().removeprefix("\x1b]52;c;").removesuffix("\x07")
    assert base64.b64decode(data, validate=True).decode() == text


def test_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal would drop more in silence, or take a part of it."""
    terminal = terminal_elsewhere(monkeypatch)
    asyncio.run(of_this_process().write("x" * MAX_TERMINAL_BYTES))
    before = terminal.getvalue()
    with pytest.raises(InvalidRequest, match="74,995 bytes, a terminal's clipboard takes 74,994"):
        asyncio.run(of_this_process().write("x" * (MAX_TERMINAL_BYTES + 1)))
    assert terminal.getvalue() == before


def test_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody sits there is no clipboard to write to."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys, "stdout", None)
    assert Clipboard.of_this_process() is None


def test_a_terminal_that_takes_text_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """TERM=dumb: it would show the sequence."""
    terminal = terminal_elsewhere(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(InvalidRequest, match="no clipboard can be reached"):
        asyncio.run(of_this_process().write("text"))
    assert terminal.getvalue() == ""


def test_a_terminal_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in its clipboard cannot be asked."""
    terminal = terminal_elsewhere(monkeypatch)
    with pytest.raises(InvalidRequest, match="cannot be read from here"):
        asyncio.run(of_this_process().read())
    assert terminal.getvalue() == ""


@pytest.fixture
def xclip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program of a desktop, which a test has to write."""
    program = tmp_path / "xclip"
    program.touch(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DISPLAY", ":9")
    return program


def at_desktop(code: str) -> str:
    """What a process prints that has not looked yet which program there is."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout


DESKTOP = """
import asyncio, sys
from radixchat.chat_cli.clipboard import Clipboard
clipboard = Clipboard(None, at_desktop=True)
print(asyncio.run(clipboard.write("Größe\\n")))
print(repr(asyncio.run(clipboard.read())))
"""


def test_a_desktops_clipboard(tmp_path: Path, xclip: Path) -> None:
    """The desktop's own program has it, and gives it back."""
    xclip.write_text(
        f'#!/bin/sh\ncase "$*" in *-o*) cat {tmp_path}/kept;; *) cat > {tmp_path}/kept;; esac\n'
    )
    assert at_desktop(DESKTOP) == "the clipboard\n'Größe\\n'\n"


HANGING = """
import asyncio, io, os
from radixchat.chat_cli import clipboard
from radixchat.server.protocol import InvalidRequest
clipboard._PATIENCE_S = 0.01
async def main():
    screen = io.StringIO()
    desktop = clipboard.Clipboard(screen, at_desktop=True)
    print(await desktop.write("text"), "]52;" in screen.getvalue())
    try:
        await desktop.read()
    except InvalidRequest as error:
        print(error)
    os.write(os.open("GATE", os.O_RDWR), b"\\n\\n")  # a line for each that hangs
asyncio.run(main())
"""


def test_a_desktop_that_hangs(tmp_path: Path, xclip: Path) -> None:
    """It is not waited for: the terminal's clipboard is written, and nothing is read."""
    os.mkfifo(tmp_path / "gate")
    xclip.write_text(f"#!/bin/sh\nread nothing < {tmp_path}/gate\n")
    written, read = at_desktop(HANGING.replace("GATE", str(tmp_path / "gate"))).splitlines()
    assert written == "the terminal's clipboard, if it has one for programs (OSC 52) True"
    assert read.startswith("the clipboard cannot be read from here")
