"""COLUMNS and LINES that are no size count as not set."""

from __future__ import annotations

import os
import subprocess

import pytest

from radixchat.chat_cli.exit_codes import ERROR
from radixchat.chat_cli.told_size import forget_absurd_size
from radixchat.tests.chat_cli.chat_terminal import COMMAND


@pytest.mark.parametrize("value", ["0", "-5", "", "wide", "1e3", "²", "00", "10001", "9" * 5000])
def test_no_sizes(value: str) -> None:
    """Nothing, none, less than none, and more than there is."""
    environment = {"COLUMNS": value, "LINES": value, "TERM": "xterm"}
    forget_absurd_size(environment)
    assert environment == {"TERM": "xterm"}


def test_sizes() -> None:
    """Anything that a window can have stays, and what is not set stays so."""
    environment = {"COLUMNS": "1", "LINES": "10000"}
    forget_absurd_size(environment)
    assert environment == {"COLUMNS": "1", "LINES": "10000"}
    nothing: dict[str, str] = {}
    forget_absurd_size(nothing)
    assert not nothing


@pytest.mark.parametrize("columns", ["0", "²", "9" * 30])
def test_errors_are_shown_all_the_same(columns: str) -> None:
    """An error reaches standard error, whole and once."""
    done = subprocess.run(
        [*COMMAND, "sessions", "list"],
        env={**os.environ, "COLUMNS": columns},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == ERROR
    assert done.stderr.startswith("error: there is no database")
