"""What ends a command: which stream it was, or which file, in words."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from radixchat.chat_cli.exit_codes import ERROR, USAGE
from radixchat.chat_cli.guard import guarded
from radixchat.tests.chat_cli.chat_terminal import COMMAND


def told(failure: OSError) -> str:
    """What is said of it."""
    said: list[str] = []

    def work() -> int:
        raise failure

    assert guarded(work, said.append) == ERROR
    [text] = said
    return text


def test_a_file_is_named() -> None:
    """With what is wrong, and without a number."""
    assert told(IsADirectoryError(errno.EISDIR, "Is a directory", "/x")) == "/x: Is a directory"
    assert told(OSError(errno.EIO, "Input/output error")) == "Input/output error"
    assert told(OSError("odd")) == "odd"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output(unbuffered: str) -> None:
    """It is said to be that."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "paths"],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
        )
    said = "error: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (ERROR, said)


@pytest.mark.parametrize("name", ["RADIXCHAT_TOP_P", "RADIXCHAT_TYPICAL_P"])
def test_a_variable_is_named(name: str) -> None:
    """A value that no flag has given is not complained of as a flag's."""
    done = subprocess.run(
        [*COMMAND, "chat", "hi"],
        env={**os.environ, name: "x"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == USAGE
    assert f"Invalid value for '{name}': 'x' is not" in done.stderr
