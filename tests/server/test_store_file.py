"""The store's file: what is created, refused, found damaged; what a full disk costs."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from radixchat.engine.errors import StoreError
from radixchat.server.message import Answer
from radixchat.server.migrations import APPLICATION_ID, SCHEMA_VERSION
from radixchat.server.store import Store
from radixchat.server.store_file import BUSY_SECONDS, StoreFile
from radixchat.tests.server.turns import begin, finish, load, say


def run(path: Path, sql: str, *values: object) -> None:
    """Behind the store's back."""
    connection = sqlite3.connect(path)
    connection.execute(sql, values)
    connection.commit()
    connection.close()


@contextmanager
def unprivileged() -> Iterator[Path]:
    """A folder of an ordinary user, and the rights of one: permissions do not bind root."""
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """No file of this process grows beyond what the log of that database is now."""
    size = path.with_name(f"{path.name}-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_creates_private_folders_and_file(tmp_path: Path) -> None:
    """Missing folders are made for their owner only, and so is everything in them."""
    path = tmp_path / "a" / "b" / "s.db"
    with Store(path) as store:
        say(store, store.create_conversation(principal="local"), "Hi")
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        assert set(modes.values()) == {0o600}
        assert {"s.db", "s.db-wal", "s.db-shm"} < set(modes)
    assert [folder.stat().st_mode & 0o777 for folder in path.parents[:2]] == [0o700, 0o700]
    assert [file.name for file in path.parent.iterdir()] == ["s.db"]


def test_pragmas_and_identity(tmp_path: Path) -> None:
    """The file says whose it is; the connection waits, logs ahead, syncs, and checks references."""
    with closing(StoreFile(tmp_path / "s.db")) as file, file.reading() as db:
        found = {
            name: db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "busy_timeout", "journal_mode")
        }
        assert found == {
            "application_id": APPLICATION_ID,
            "user_version": SCHEMA_VERSION,
            "busy_timeout": 5000,
            "journal_mode": "wal",
        }
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert db.execute("PRAGMA foreign_keys").fetchone()[0] == 1


def test_in_memory() -> None:
    """A store in memory is like any other, and makes no file."""
    with Store(Path(":memory:")) as store:
        conversation = store.create_conversation(principal="local")
        tip = say(store, conversation, "Hi")
        assert [message.text for message in store.path(tip, principal="local")] == ["Hi", "Hello"]
        assert store.verify() == []
    assert not Path(":memory:").exists()


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be read as one" * 90, b"x"]
)
def test_refuses_what_is_no_database(tmp_path: Path, content: bytes) -> None:
    """Another kind of file is refused, and left as it is."""
    path = tmp_path / "s.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"s\.db is not a SQLite database"):
        Store(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "sql", ["CREATE TABLE t (a)", "PRAGMA application_id = 7", "PRAGMA user_version = 7"]
)
def test_refuses_another_programs_database(tmp_path: Path, sql: str) -> None:
    """Another program's database is refused, and left as it is."""
    path = tmp_path / "s.db"
    run(path, sql)
    content = path.read_bytes()
    with pytest.raises(StoreError, match=r"s\.db is a database of another program"):
        Store(path)
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == ["s.db"]


def test_refuses_a_newer_schema(tmp_path: Path) -> None:
    """A file of a newer version is refused with both numbers, and left as it is."""
    path = tmp_path / "s.db"
    Store(path).close()
    run(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    content = path.read_bytes()
    numbers = rf"schema {SCHEMA_VERSION + 1}; this one knows {SCHEMA_VERSION}"
    with pytest.raises(StoreError, match=rf"newer radixchat \({numbers}\): upgrade"):
        Store(path)
    assert path.read_bytes() == content


def test_refuses_a_folder(tmp_path: Path) -> None:
    """A folder is not a file, and the message says so; nor is a file a folder."""
    with pytest.raises(StoreError, match="is a folder"):
        Store(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file/s\.db cannot be used"):
        Store(tmp_path / "file" / "s.db")


def test_refuses_what_cannot_be_written() -> None:
    """A read-only file, folder or parent is refused at once, not at the first turn."""
    with unprivileged() as folder:
        path = folder / "s.db"
        Store(path).close()
        path.chmod(0o400)
        with pytest.raises(StoreError, match=r"s\.db cannot be written"):
            Store(path)
        path.chmod(0o600)
        folder.chmod(0o500)
        for wanted in (path, folder / "new.db", folder / "new" / "s.db"):
            with pytest.raises(StoreError, match=wanted.name):
                Store(wanted)


def test_file_that_becomes_read_only(tmp_path: Path) -> None:
    """Writing fails with the path and the cause; what was stored stays readable."""
    with Store(tmp_path / "s.db") as store:
        conversation = store.create_conversation(principal="local")
        tip = say(store, conversation, "Hi")
        store._file._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreError, match=r"s\.db cannot be written"):
            say(store, conversation, "Again")
        assert store.conversation(conversation, principal="local").tip == tip
        assert store.verify() == []


def test_full_disk_loses_nothing_committed(tmp_path: Path) -> None:
    """No turn is half stored; what could not be stored is stored when there is room again."""
    path = tmp_path / "s.db"
    with Store(path) as store:
        conversation = store.create_conversation(principal="local")
        tip = say(store, conversation, "Hi")
        with full_disk(path), pytest.raises(StoreError, match=r"s\.db .* nothing stored before"):
            say(store, conversation, "x" * 100_000)
        assert store.conversation(conversation, principal="local").tip == tip
        assert store.verify() == []

        row = begin(store, conversation, "Again")
        store.save_partial(row.id, Answer("part", (6,)))
        with full_disk(path), pytest.raises(StoreError):
            finish(store, row.id, "y" * 100_000)
        assert store.conversation(conversation, principal="local").tip == row.question
        assert store.recover() == [row.id]  # as the next turn does, too
        last = store.path(
            store.conversation(conversation, principal="local").tip, principal="local"
        )[-1]
        assert (last.text, last.status) == ("y" * 100_000, "complete")
        assert store.response(row.id, principal="local").status == "completed"
        assert say(store, conversation, "And again") is not None
        assert store.verify() == []


def test_close_stores_what_the_disk_had_refused(tmp_path: Path) -> None:
    """There is room again when the store is closed: the whole answer is kept, not its part."""
    path = tmp_path / "s.db"
    store = Store(path)
    conversation = store.create_conversation(principal="local")
    row = begin(store, conversation)
    store.save_partial(row.id, Answer("part", (6,)))
    with full_disk(path), pytest.raises(StoreError):
        finish(store, row.id, "y" * 100_000)
    store.close()
    with Store(path) as store:
        assert store.response(row.id, principal="local").status == "completed"
        assert load(store, conversation).messages[-1].text == "y" * 100_000


def test_close_with_a_disk_that_is_still_full(tmp_path: Path) -> None:
    """It says so, and closes all the same: the next one recovers what was saved."""
    path = tmp_path / "s.db"
    store = Store(path)
    conversation = store.create_conversation(principal="local")
    row = begin(store, conversation)
    store.save_partial(row.id, Answer("part", (6,)))
    with full_disk(path):
        with pytest.raises(StoreError):
            finish(store, row.id, "y" * 100_000)
        with pytest.raises(StoreError, match=r"s\.db .* nothing stored before"):
            store.close()
        store.close()
    with Store(path) as store:
        assert load(store, conversation).messages[-1].text == "part"


def test_waits_for_a_file_that_another_opens(tmp_path: Path) -> None:
    """An empty file in which another process makes its tables is waited for."""
    path = tmp_path / "s.db"
    holder = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.1, holder.rollback)
    release.start()
    Store(path).close()
    release.join()
    holder.close()


@pytest.mark.slow
def test_waits_for_the_write_lock_then_says_so(tmp_path: Path) -> None:
    """A file that another process holds is waited for, and in the end reported as locked."""
    path = tmp_path / "s.db"
    with Store(path) as store:
        holder = sqlite3.connect(path)
        holder.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        with pytest.raises(StoreError, match="locked by another process for 5 s"):
            store.create_conversation(principal="local")
        assert time.monotonic() - begun >= BUSY_SECONDS
        holder.rollback()
        holder.close()
        store.create_conversation(principal="local")


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    """Zeroed pages give a StoreError where they are read, and problems from verify; no crash."""
    path = tmp_path / "s.db"
    with Store(path) as store:
        conversation = store.create_conversation(principal="local")
        for number in range(50):
            tip = say(store, conversation, f"{number} " * 200)
    content = path.read_bytes()
    refusals = []
    for page in range(1, len(content) // 4096):
        path.write_bytes(content[: page * 4096] + bytes(4096) + content[(page + 1) * 4096 :])
        try:
            with Store(path) as store:
                assert store.verify() != []
                store.path(tip, principal="local")
        except StoreError as error:
            refusals.append(str(error))
    assert len(refusals) > 5
    assert all(str(path) in refusal for refusal in refusals)


def test_closed_store(tmp_path: Path) -> None:
    """Closing twice is fine; using a closed store is an error with the path."""
    store = Store(tmp_path / "s.db")
    store.close()
    store.close()
    with pytest.raises(StoreError, match=r"s\.db"):
        store.latest(principal="local")


def test_verify_finds_changes(tmp_path: Path) -> None:
    """A changed text, a cut id list, a missing parent are each named."""
    path = tmp_path / "s.db"
    with Store(path) as store:
        conversation = store.create_conversation(principal="local")
        say(store, conversation)
        question, answer = load(store, conversation).messages
        assert store.verify() == []
        for column, value in (("text", "Bye"), ("token_ids", b"123"), ("status", "error")):
            old = {"text": "Hi", "token_ids": b"H\0\0\0i\0\0\0", "status": "complete"}[column]
            run(path, f"UPDATE message SET {column} = ? WHERE id = ?", value, question.id)
            assert store.verify() == [f"message {question.id} does not match its content"]
            run(path, f"UPDATE message SET {column} = ? WHERE id = ?", old, question.id)
            assert store.verify() == []
        run(path, "DELETE FROM message WHERE id = ?", question.id)
        problems = store.verify()
        # The answer's parent, the response's question, what its principal holds.
        assert len(problems) == 3, problems
        assert all("refers to nothing" in problem for problem in problems)
        with pytest.raises(StoreError, match=f"no whole path to message '{answer.id}'"):
            store.path(answer.id, principal="local")


def test_path_of_a_loop_ends(tmp_path: Path) -> None:
    """A loop of parents, which only damage can make, is reported and not followed for ever."""
    path = tmp_path / "s.db"
    with Store(path) as store:
        conversation = store.create_conversation(principal="local")
        tip = say(store, conversation)
        run(path, "UPDATE message SET parent = ? WHERE parent IS NULL", tip)
        with pytest.raises(StoreError, match="no whole path"):
            store.path(tip, principal="local")
        assert store.verify() != []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_goes_away_is_told_at_the_next_turn(tmp_path: Path, replaced: bool) -> None:
    """What SQLite would write to a deleted file without a word is refused, and said."""
    path = tmp_path / "s.db"
    store = Store(path)
    conversation = store.create_conversation(principal="local")
    begun = begin(store, conversation).id
    for file in tmp_path.glob("s.db*"):
        if "owner" not in file.name:
            file.unlink()
    if replaced:
        Store(path).close()
    with pytest.raises(StoreError, match="deleted or replaced"):
        finish(store, begun)
    with pytest.raises(StoreError, match="deleted or replaced"):
        store.create_conversation(principal="local")
    with pytest.raises(StoreError, match="deleted or replaced"):
        store.close()  # the answer that could not be stored has nowhere to go


def test_a_row_that_cannot_be_is_named(tmp_path: Path) -> None:
    """NULL where ids should be: verify says which message, a read raises StoreError."""
    path = tmp_path / "s.db"
    with Store(path) as store:
        conversation = store.create_conversation(principal="local")
        answer = say(store, conversation)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '')")
    connection.commit()
    connection.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE message SET token_ids = NULL WHERE id = ?", [answer])
    connection.commit()
    connection.close()
    with Store(path) as store:
        assert any(str(answer) in problem for problem in store.verify())
        with pytest.raises(StoreError, match="damaged"):
            store.path(answer, principal="local")


def test_deleted_text_is_not_in_the_file(tmp_path: Path) -> None:
    """Once the log is written back, nothing of it is left in any page."""
    path, secret = tmp_path / "chat.db", "a very secret sentence " * 300
    with Store(path) as store:
        conversation = store.create_conversation(principal="local", system=secret)
        store.create_conversation(principal="local", system="another")
        store.delete_conversation(conversation, principal="local")
    assert b"very secret" not in path.read_bytes()
    assert not path.with_name("chat.db-wal").exists()
