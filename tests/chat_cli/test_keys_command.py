"""`radixchat keys`: made once, listed, taken back."""

from __future__ import annotations

import stat

import pytest
from click.testing import CliRunner, Result

from radixchat.chat_cli.main import cli
from radixchat.chat_cli.paths import database_file
from radixchat.server.key_file import open_keys


def keys(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["keys", *arguments])


def listed() -> list[list[str]]:
    """The fields of each key."""
    result = keys("list")
    assert result.exit_code == 0
    return [line.split("\t") for line in result.stdout.splitlines()]


def test_a_key_is_told_once() -> None:
    """The key is the only line; the database has its hash, and is its owner's only."""
    result = keys("add", "anna")
    key = result.stdout.strip()
    assert result.exit_code == 0
    assert "keep it well" in result.stderr
    assert key.encode() not in database_file().read_bytes()
    assert stat.S_IMODE(database_file().stat().st_mode) == 0o600
    with open_keys(database_file()) as store:
        found = store.identify(key)
    assert found is not None
    assert (found.name, found.is_operator) == ("anna", False)
    assert key not in keys("list").stdout


def test_list() -> None:
    """A line a key: id, name, principal, kind, day, state."""
    assert "keys add" in keys("list").stderr
    keys("add", "anna")
    keys("add", "ops", "--operator")
    keys("revoke", "anna")
    keys("add", "anna", "--same-as", "anna")
    first, ops, second = listed()
    assert [first[1], ops[1], second[1]] == ["anna", "ops", "anna"]
    assert [first[3], ops[3], second[3]] == ["client", "operator", "client"]
    assert first[2] == second[2] == first[0] != ops[2]
    assert first[5].startswith("revoked 2")
    assert ops[5] == second[5] == "good"


def test_revoke() -> None:
    """By its name or its id; once."""
    key = keys("add", "anna").stdout.strip()
    ((id_, *_),) = listed()
    assert keys("revoke", id_).exit_code == 0
    with open_keys(database_file()) as store:
        assert store.identify(key) is None
    assert keys("revoke", id_).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["add", " "], 1, "needs a name"),
        (["add", "anna"], 1, "a key named 'anna' already"),
        (["add", "ben", "--same-as", "carl"], 1, "no key 'carl'"),
        (["revoke", "carl"], 1, "no key 'carl'"),
        (["add"], 2, "NAME"),
        (["list", "--db", "/dev/null"], 1, "/dev/null"),
    ],
)
def test_what_is_refused(arguments: list[str], code: int, said: str) -> None:
    """With a sentence, no traceback, and nothing on standard output."""
    keys("add", "anna")
    result = keys(*arguments)
    assert result.exit_code == code
    assert said in result.stderr
    assert not result.stdout


def test_the_database_of_a_flag_or_a_variable(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `serve` finds it."""
    folder = tmp_path_factory.mktemp("elsewhere")
    assert keys("add", "anna", "--db", str(folder / "a.db")).exit_code == 0
    assert (folder / "a.db").exists()
    monkeypatch.setenv("RADIXCHAT_DB", str(folder / "a.db"))
    assert [row[1] for row in listed()] == ["anna"]
    assert not database_file().exists()
