"""Tests of chat_cli/table.py."""

from __future__ import annotations

import pytest

from radixchat.chat_cli.table import show_rows

ROWS = (("key_1", "ada", ""), ("key_2", "a longer name", "good"))


def test_a_script_gets_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a heading, and without what is empty at the end."""
    show_rows(("ID", "NAME", "STATE"), ROWS, to_terminal=False)
    assert capsys.readouterr().out == "key_1\tada\nkey_2\ta longer name\tgood\n"


def test_a_terminal_gets_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Under their names, which of no rows are not shown."""
    show_rows(("ID", "NAME", "STATE"), ROWS, to_terminal=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ID     NAME           STATE"
    assert lines[1] == "key_1  ada"
    assert lines[2] == "key_2  a longer name  good"
    show_rows(("NAME", "STATE"), (("漢字", "a"), ("five5", "b")), to_terminal=True)
    assert capsys.readouterr().out.splitlines()[1:] == ["漢字   a", "five5  b"]
    show_rows(("ID", "NAME", "STATE"), (), to_terminal=True)
    assert capsys.readouterr().out == ""
