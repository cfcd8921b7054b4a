"""`radixchat sessions`: what is stored, listed, found, taken out, read in, checked, copied."""

from __future__ import annotations

import json
import sqlite3
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from radixchat.chat_cli.exit_codes import ERROR, TEMPORARY, USAGE
from radixchat.chat_cli.main import cli
from radixchat.chat_cli.paths import config_file
from radixchat.server.store import Store
from radixchat.tests.chat_cli.chat_terminal import ChatTerminal
from radixchat.tests.server.turns import ME, begin, change, load, say, texts


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


def test_list_for_scripts(database: Path) -> None:
    """An object a line, with times and how it begins; at most as many as are wanted."""
    (line,) = sessions(database, "list", "--json", "--limit", "1").stdout.splitlines()
    found = json.loads(line)
    assert (found["title"], found["opening"], found["num_turns"]) == ("Ham", "And ham?", 1)
    assert found["updated_at"] >= found["created_at"] > 0
    config_file().parent.mkdir()
    config_file().write_text("json = true")  # for chat
    assert len(sessions(database, "list").stdout.split("\t")) == 7


def test_show(database: Path) -> None:
    """From the first message to the last; without an id the conversation used last."""
    ham, eggs = ids(database)
    assert sessions(database, "show").stdout == "[user]\nAnd ham?\n\n[assistant]\nLonger.\n"
    shown = sessions(database, "show", eggs[:-2])
    assert shown.stdout.startswith("[system]\nCook.\n\n[user]\nHow long?\n\n[assistant]\n")
    assert shown.stdout.endswith("Yes␛[31m really.\n")
    document = json.loads(sessions(database, "show", eggs, "--json").stdout)
    assert (document["id"], document["system"]) == (eggs, "Cook.")
    assert [m["role"] for m in document["messages"]] == ["system"] + ["user", "assistant"] * 2
    assert document["messages"][-1]["id"] == document["tip"]
    assert sessions(database, "show", "ZZZZ").exit_code == 1
    with Store(database) as store:
        empty = store.create_conversation(principal=ME)
    nothing = sessions(database, "show", empty)
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert f"{empty} has no message" in nothing.stderr
    assert ham in ids(database)


def test_show_the_tree(database: Path) -> None:
    """A line per message, with the id that `fork --at` takes; as JSON with the parents."""
    _, eggs = ids(database)
    with Store(database) as store:
        path = load(store, eggs).messages
        store.move_tip(eggs, principal=ME, expected=path[-1].id, new=path[2].id)
        say(store, eggs, "Another way?", "No.")
    lines = sessions(database, "show", eggs, "--tree").stdout.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        "* system: Cook.",
        "* user: How long?",
        "* assistant: Eight minutes.",
        "    user: Sure?",
        "    assistant: Yes␛[31m really.",
        "*   user: Another way?",
        "*   assistant: No.",
    ]
    tree = json.loads(sessions(database, "show", eggs, "--tree", "--json").stdout)["messages"]
    assert [m["id"] for m in tree if m["on_path"]] == [
        line.split()[0] for line in lines if " * " in line
    ]
    assert tree[0]["parent"] is None


def test_names(database: Path) -> None:
    """A conversation is meant by its name too: the whole one first, then how it begins."""
    ham, eggs = ids(database)
    for name in ("Ham", "ham", "H"):
        assert "Longer." in sessions(database, "show", name).stdout
    (fork,) = sessions(database, "fork", "Ham", "--name", "Hammer").stdout.split()
    for name in ("Ham", "ham"):
        assert json.loads(sessions(database, "show", name, "--json").stdout)["id"] == ham
    ambiguous = sessions(database, "show", "h")
    assert (ambiguous.exit_code, ambiguous.stdout) == (1, "")
    assert f'"Ham" ({ham[:17]}, 1 turn)' in ambiguous.stderr
    assert sessions(database, "delete", "Hammer", eggs).stdout.split() == [fork, eggs]
    assert sessions(database, "show", " ").exit_code == 1


def test_delete(database: Path) -> None:
    """Without a terminal nobody is asked; the ids of what is gone are printed."""
    ham, eggs = ids(database)
    result = sessions(database, "delete", ham, eggs, ham)
    assert (result.exit_code, result.stdout) == (0, f"{ham}\n{eggs}\n")
    assert ids(database) == []
    assert sessions(database, "delete").exit_code == 2
    assert sessions(database, "verify").exit_code == 0
    assert len(ids(database, "--principal", "key_ada")) == 1


def test_delete_all_or_none(database: Path) -> None:
    """One that is unknown, or is being answered, keeps all of them where they are."""
    ham, eggs = ids(database)
    unknown = sessions(database, "delete", ham, "ZZZZ")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    with Store(database) as store:
        begin(store, eggs)
        busy = sessions(database, "delete", ham, eggs)
    assert (busy.exit_code, busy.stdout) == (TEMPORARY, "")
    assert f"{eggs} is being answered" in busy.stderr
    assert sorted(ids(database)) == sorted([ham, eggs])


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "code"), [("y\r", 0), ("n\r", 0), ("\r", 0), ("\x03", 130)])
def test_delete_asks_on_a_terminal(database: Path, keys: str, code: int) -> None:
    """It says what it would delete, and takes Enter for no."""
    ham, _ = ids(database)
    with ChatTerminal("sessions", "delete", ham, "--db", str(database)) as terminal:
        terminal.wait_for(rf"delete {ham} \(Ham, 1 turn\)\? \[y/N\]:")
        terminal.type(keys)
        assert terminal.exit_code() == code
    assert (ham in ids(database)) == (keys != "y\r")


def test_fork(database: Path) -> None:
    """Another conversation with the same history, or with that up to a turn or a message."""
    ham, eggs = ids(database)
    (fork,) = sessions(database, "fork", eggs, "--name", "Soft").stdout.split()
    with Store(database) as store:
        assert texts(store, fork) == texts(store, eggs)
        assert store.conversation(fork, principal=ME).title == "Soft"
        answer = load(store, eggs).messages[2].id
        for place in ("1", answer):
            (early,) = sessions(database, "fork", eggs, "--at", place).stdout.split()
            assert texts(store, early) == ["Cook.", "How long?", "Eight minutes."]
    (last,) = sessions(database, "fork").stdout.split()
    assert last not in (ham, eggs, fork)
    for wrong in ("3", "0", "msg_none"):
        refused = sessions(database, "fork", eggs, "--at", wrong)
        assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"{eggs} has no turn 3; it has 2" in sessions(database, "fork", eggs, "--at", "3").stderr
    assert sessions(database, "verify").exit_code == 0


def test_search_for_scripts(database: Path) -> None:
    """An object a line."""
    (line,) = sessions(database, "search", "real", "--json").stdout.splitlines()
    assert json.loads(line)["snippet"] == "Yes\x1b[31m «real»ly."


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["list", "--url", "ws://h", "--db", "x.db"], "--db is for a database here"),
        (["show", "--url", "ws://h", "--principal", "x"], "--principal is for a database here"),
        (["list", "--url", "ftp://h"], "ws://, wss://"),
        (["list", "--key", "x"], "--key is for a server"),
        (["export", "--url", "ws://h", "--format", "llm", "-o", "x"], "not of a server's"),
    ],
)
def test_usage_errors(arguments: list[str], complaint: str) -> None:
    """A server has its own conversations, whoever's the key is."""
    result = CliRunner().invoke(cli, ["sessions", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr


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


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", ""),
        ("delete", ""),
        ("fork", ""),
        ("export", ""),
        ("search", ""),
        ("search", " ", ""),
        ("list", "--principal", ""),
    ],
)
def test_nothing_is_no_argument(database: Path, arguments: tuple[str, ...]) -> None:
    """What a script's empty variable gives is a usage error, and not the last conversation."""
    assert sessions(database, *arguments).exit_code == USAGE


def test_nothing_to_import(database: Path, tmp_path: Path) -> None:
    """A file without a conversation is said to have none."""
    (tmp_path / "empty").write_text("\n")
    done = sessions(database, "import", str(tmp_path / "empty"))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "note: nothing was imported: " in done.stderr


def test_a_backup_needs_a_name(database: Path, tmp_path: Path) -> None:
    """A folder is no file to write to, the root neither."""
    for place in ("/", str(tmp_path)):
        done = sessions(database, "backup", place)
        assert done.exit_code == ERROR
        assert f"error: {place} " in done.stderr
