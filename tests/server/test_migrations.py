"""Files of an earlier radixchat are brought up to date, and keep what they hold."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlite_utils import Database

from radixchat.server.message import NOTHING, NewMessage, user_message
from radixchat.server.migrations import APPLICATION_ID, MIGRATIONS
from radixchat.server.store import Store
from radixchat.tests.server.turns import say


def as_of_version_1(path: Path) -> None:
    """An empty file as the first schema left it."""
    with closing(sqlite3.connect(path)) as connection:
        db = Database(connection, strict=True, execute_plugins=False)
        MIGRATIONS.apply(db, stop_before="m002_principal")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        conversation = (
            "INSERT INTO conversation(id, title, used, created_at, updated_at) "
            "VALUES ('conv_1', '', 0, 1, 1)"
        )
        question = (
            "INSERT INTO message(id, role, text, token_ids, absolute, status, render_hash, "
            "created_at) VALUES ('msg_1', 'user', 'Hi', x'', 1, 'complete', 'r', 1)"
        )
        response = (
            "INSERT INTO response(id, conversation, question, status, owner, options, render_hash, "
            "text, token_ids, created_at, updated_at) "
            "VALUES ('resp_1', 'conv_1', 'msg_1', 'failed', 'lease_1', '{}', 'r', '', x'', 1, 1)"
        )
        for statement in (conversation, question, response):
            connection.execute(statement)
        connection.commit()


def test_a_response_of_the_first_schema_was_for_the_local_user(tmp_path: Path) -> None:
    """There was nobody else; the store goes on with the file."""
    path = tmp_path / "s.db"
    as_of_version_1(path)
    with Store(path) as store:
        assert store.response("resp_1", principal="local").principal == "local"
        say(store, "conv_1", "And now?")
        assert [row for row in store.verify() if "msg_1" not in row] == []


def test_a_file_of_the_second_schema_has_left_nothing_out(tmp_path: Path) -> None:
    """Its messages keep their ids."""
    path, id_ = tmp_path / "s.db", user_message(None, NewMessage("Hi", (), True), "r").id
    as_of_version_1(path)
    with closing(sqlite3.connect(path)) as connection:
        db = Database(connection, strict=True, execute_plugins=False)
        MIGRATIONS.apply(db, stop_before="m003_left_out")
        connection.execute("UPDATE message SET id = ?", [id_])
        connection.execute("UPDATE response SET question = ?", [id_])
        connection.execute("UPDATE conversation SET tip = ?", [id_])
        connection.execute("PRAGMA user_version = 2")
        connection.commit()
    with Store(path) as store:
        (message,) = store.path(id_, principal="local")
        assert message.left_out == NOTHING
        say(store, "conv_1", "And now?")
        assert store.verify() == []
