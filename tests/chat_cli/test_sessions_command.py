"""`radixchat sessions`: what is stored, listed, found, taken out, read in, checked, copied."""

from __future__ import annotations

import json
import sqlite3
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from radixchat.chat_cli.main import cli
from radixchat.server.store import Store
from radixchat.tests.server.turns import ME, change, say, texts


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Two conversations of one's own, one of somebody else's."""
    path = tmp_path / "s.db"
    with Store(path) as store:
        eggs = store.create_conversation(principal=ME, title="Eggs", system="Cook.")
        say(store, eggs, "How long?", "Eight minutes.")
        say(store, eggs, "Sure?", "Yes\x1b[31m really.")
        say(store, store.create_conversation(principal=ME, title="Ham"), "And ham?", "Longer.")
        theirs = store.create_conversation(principal="key_ada", title="Private")
        say(store, theirs, "A secret?", "Yes.", principal="key_ada")
    return path


def sessions(database: Path, *arguments: str, stdin: bytes | None = None) -> Result:
    command = ["sessions", *arguments, "--db", str(database)]
    return CliRunner().invoke(cli, command, input=stdin)


def ids(database: Path, *arguments: str) -> list[str]:
    result = sessions(database, "list", *arguments)
    return [line.split("\t")[0] for line in result.stdout.splitlines()]


def test_list(database: Path) -> None:
    """The last changed first: id, turns, day, title; somebody else's only if asked for."""
    result = sessions(database, "list")
    assert result.exit_code == 0
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [(row[1], row[3]) for row in rows] == [("1", "Ham"), ("2", "Eggs")]
    assert "Private" in sessions(database, "list", "--principal", "key_ada").stdout
    nobody = sessions(database, "list", "--principal", "x")
    assert (nobody.exit_code, nobody.stdout) == (0, "")
    assert "no conversation" in nobody.stderr


def test_list_without_titles(database: Path) -> None:
    """A conversation without one is shown by how it begins, on one line."""
    with Store(database) as store:
        say(
            store,
            store.create_conversation(principal=ME),
            "\n\tThe first\n\x1bc" + "x" * 999,
            "Yes.",
        )
        store.create_conversation(principal=ME)
    rows = [line.split("\t") for line in sessions(database, "list").stdout.splitlines()]
    assert [len(row) for row in rows] == [3, 4, 4, 4]  # an empty one has no name at all
    assert rows[1][3] == "The first \ufffdc" + "x" * 47 + "…"
    exported = sessions(database, "export", rows[1][0], "--format", "markdown")
    assert exported.stdout.startswith(f"# {rows[1][3]}\n")


def test_a_principal_by_its_key_s_name(database: Path) -> None:
    """What `keys list` calls the key does for its id."""
    with Store(database) as store:
        store.keys.add("ada")
        (key,) = store.keys.list()
        theirs = store.create_conversation(principal=key.principal, title="Ada's")
        say(store, theirs, "Needle?", "Yes.", principal=key.principal)
    assert ids(database, "--principal", "ada") == ids(database, "--principal", key.principal)
    assert ids(database, "--principal", "ada") == [theirs]
    assert theirs in sessions(database, "search", "needle", "--principal", "ada").stdout
    assert theirs in sessions(database, "export", "--principal", "ada").stdout


def test_search(database: Path) -> None:
    """A line per message: where, who, and the words; control characters do nothing."""
    result = sessions(database, "search", "real")
    eggs = ids(database)[1]
    assert result.stdout == f"{eggs}\tassistant\tYes␛[31m «real»ly.\n"
    assert sessions(database, "search", "secret").stdout == ""
    assert sessions(database, "search").exit_code == 2


def test_export_of_the_last_one(database: Path) -> None:
    """As JSON on one line; by the beginning of an id, as Markdown."""
    ham, eggs = ids(database)
    result = sessions(database, "export")
    assert result.stdout.count("\n") == 1
    assert json.loads(result.stdout)["conversation"]["id"] == ham
    result = sessions(database, "export", eggs[:-1], "--format", "markdown")
    assert result.stdout.startswith(f"# Eggs\n\n*{eggs}, 2 turns")
    missing = sessions(database, "export", "ZZZZ")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "no conversation's id starts with 'ZZZZ'" in missing.stderr


@pytest.mark.parametrize("by_pipe", [False, True])
def test_all_of_it_goes_to_another_database(database: Path, tmp_path: Path, by_pipe: bool) -> None:
    """Line by line; a second time finds it all there."""
    file, other = tmp_path / "all.jsonl", tmp_path / "new" / "other.db"
    assert sessions(database, "export", "--all", "-o", str(file)).exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    source, content = ("-", file.read_bytes()) if by_pipe else (str(file), None)
    result = sessions(other, "import", source, stdin=content)
    assert (result.exit_code, sorted(result.stdout.split())) == (0, sorted(ids(database)))
    assert ids(other) == ids(database)
    again = sessions(other, "import", str(file))
    assert (again.exit_code, again.stdout) == (0, "")
    assert "2 conversations were here already" in again.stderr
    missing = sessions(other, "import", str(tmp_path / "missing.jsonl"))
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert f"there is no file {tmp_path / 'missing.jsonl'}" in missing.stderr
    assert sessions(other, "verify").exit_code == 0


def test_llm_logs_both_ways(database: Path, tmp_path: Path) -> None:
    """Written with -o only, and told from JSON by its first bytes."""
    logs, other = tmp_path / "logs.db", tmp_path / "other.db"
    assert sessions(database, "export", "--format", "llm").exit_code == 2
    result = sessions(database, "export", "--all", "--format", "llm", "-o", str(logs))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "2 conversations, 3 turns" in result.stderr
    assert sorted(sessions(other, "import", str(logs)).stdout.split()) == sorted(ids(database))
    with Store(other) as store:
        (eggs,) = (row.id for row in store.conversations(principal=ME, limit=5) if row.system)
        assert texts(store, eggs)[:2] == ["Cook.", "How long?"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{}\n", "line 1: this is not a conversation"),
        (b"\n\n\xff\n", "line 3 is neither UTF-8 nor a logs.db"),
        (b"SQLite format 3\0garbage", "cannot be read"),
    ],
)
def test_what_cannot_be_imported(
    tmp_path: Path, database: Path, content: bytes, complaint: str
) -> None:
    """The line is named; nothing changes."""
    file = tmp_path / "file"
    file.write_bytes(content)
    before = ids(database)
    result = sessions(database, "import", str(file))
    assert (result.exit_code, result.stdout) == (1, "")
    assert complaint in result.stderr
    assert ids(database) == before
    missing = sessions(database, "import", str(tmp_path / "none"))
    assert missing.exit_code == 1


def test_verify(database: Path) -> None:
    """Problems are the output, and the exit code says that there are some."""
    result = sessions(database, "verify")
    assert (result.exit_code, result.stdout) == (0, "")
    change(database, "UPDATE message SET text = 'Nine minutes.' WHERE text = 'Eight minutes.'")
    result = sessions(database, "verify")
    assert result.exit_code == 1
    assert "does not match its content" in result.stdout


def test_backup(database: Path, tmp_path: Path) -> None:
    """A sound copy that only its owner can read; nothing is overwritten."""
    copy = tmp_path / "copy.db"
    with Store(database) as store:
        say(store, store.create_conversation(principal=ME, title="Now"))
        assert sessions(database, "backup", str(copy)).exit_code == 0
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert ids(copy) == ids(database)
    assert sessions(copy, "verify").exit_code == 0
    again = sessions(database, "backup", str(copy))
    assert again.exit_code == 1
    assert "exists already" in again.stderr


@pytest.mark.parametrize("command", ["list", "verify", "export", "backup"])
def test_a_missing_database_is_not_made(tmp_path: Path, command: str) -> None:
    """Only an import makes one."""
    arguments = [command, *([str(tmp_path / "copy.db")] if command == "backup" else [])]
    result = sessions(tmp_path / "none.db", *arguments)
    assert result.exit_code == 1
    assert "there is no database" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_database(tmp_path: Path) -> None:
    """It is refused, and stays as it is."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE a (b)")
    connection.close()
    result = sessions(path, "list")
    assert result.exit_code == 1
    assert "a database of another program" in result.stderr
