"""A copy of the file while it is in use: whole, private, and never over another file."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from radixchat.engine.errors import StoreError
from radixchat.server.message import Answer
from radixchat.server.store import Store
from radixchat.tests.server.turns import ME, begin, counts, finish, load, say, texts


def test_a_copy_is_the_same(store: Store, tmp_path: Path) -> None:
    """Conversations, words, keys and the secret; it goes its own way from there."""
    conversation = store.create_conversation(principal=ME, system="S")
    say(store, conversation)
    key, copy = store.keys.add("laptop"), tmp_path / "copy.db"
    secret = store.secret()
    store.backup(copy)
    with Store(copy) as other:
        assert other.verify() == []
        assert load(other, conversation) == load(store, conversation)
        assert other.search("Hello", principal=ME, limit=5)
        assert other.keys.find(key) == store.keys.list()[0].principal
        assert other.secret() == secret
        assert counts(other) == counts(store)
        say(other, conversation, "there")
    assert texts(store, conversation) == ["S", "Hi", "Hello"]


def test_what_runs_goes_on_here_and_has_ended_there(store: Store, tmp_path: Path) -> None:
    """The copy's process is another; a turn of the original is not disturbed."""
    conversation = store.create_conversation(principal=ME)
    row = begin(store, conversation)
    store.save_partial(row.id, Answer("Hel", (1,)), 64)
    store.backup(tmp_path / "copy.db")
    finish(store, row.id)
    with Store(tmp_path / "copy.db") as other:
        assert other.response(row.id, principal=ME).reason == "server_shutdown"
        assert texts(other, conversation) == ["Hi", "Hel"]
    assert texts(store, conversation) == ["Hi", "Hello"]


def test_another_process_may_write_meanwhile(store: Store, tmp_path: Path) -> None:
    """What it has not committed is not in the copy."""
    say(store, store.create_conversation(principal=ME))
    with sqlite3.connect(store._file.path) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE conversation SET title = 'new'")
        store.backup(tmp_path / "copy.db")
        writer.rollback()
    writer.close()
    with Store(tmp_path / "copy.db") as other:
        assert [row.title for row in other.conversations(principal=ME, limit=5)] == [""]


def test_every_file_is_private(store: Store, tmp_path: Path) -> None:
    """The database, its log, its index, the owner's lock and the copy."""
    begin(store, store.create_conversation(principal=ME))
    store.backup(tmp_path / "copy.db")
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert {path.name.split("-owner-")[0] for path in files} >= {
        "s.db",
        "s.db-wal",
        "s.db-shm",
        "copy.db",
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_what_cannot_be_written(store: Store, tmp_path: Path) -> None:
    """An existing file stays as it is; a missing folder is told; nothing is left over."""
    (tmp_path / "taken").write_text("mine")
    before = {path.name for path in tmp_path.iterdir()}
    for path, complaint in (
        (tmp_path / "taken", "exists already"),
        (store._file.path, "exists already"),
        (tmp_path / "none" / "copy.db", "folder is missing"),
    ):
        with pytest.raises(StoreError, match=complaint):
            store.backup(path)
    assert (tmp_path / "taken").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == before
