"""`radixchat paths`: where the files are, for people and for scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from radixchat.chat_cli.main import cli
from radixchat.chat_cli.paths import PLACES, config_file, places


def test_lines_and_object(tmp_path: Path) -> None:
    """Six names with their paths; nothing is made."""
    result = CliRunner().invoke(cli, ["paths"])
    assert result.exit_code == 0
    rows = dict(line.split("\t") for line in result.stdout.splitlines())
    assert rows == {name: str(path) for name, path in places().items()}
    assert tuple(rows) == PLACES
    assert json.loads(CliRunner().invoke(cli, ["paths", "--json"]).stdout) == rows
    assert list(tmp_path.iterdir()) == []


def test_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path alone; the database is the one that chats use."""
    assert CliRunner().invoke(cli, ["paths", "config"]).stdout == f"{config_file()}\n"
    monkeypatch.setenv("RADIXCHAT_DB", "/var/other.db")
    assert CliRunner().invoke(cli, ["paths", "database"]).stdout == "/var/other.db\n"
    given = CliRunner().invoke(cli, ["paths", "database", "-d", "mine.db", "--json"])
    assert json.loads(given.stdout) == {"database": "mine.db"}
    assert CliRunner().invoke(cli, ["paths", "cellar"]).exit_code == 2
