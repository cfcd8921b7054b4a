"""Files of an earlier radixchat are brought up to date, and keep what they hold."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlite_utils import Database

from radixchat.server.message import NOTHING, NewMessage, message_id, pack_ids, user_message
from radixchat.server.migrations import APPLICATION_ID, MIGRATIONS
from radixchat.server.store import Store
from radixchat.tests.server.turns import ME, counts, finish, say, texts


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


def as_of_version_3(path: Path) -> None:
    """A conversation in mid-answer as the third schema left it."""
    system = message_id(
        parent=None,
        role="system",
        text="Be brief.",
        token_ids=(),
        absolute=False,
        status="complete",
        render_hash="",
    )
    question = user_message(system, NewMessage("Hi", (1,)), "r")
    blank = {"absolute": 0, "status": "complete", "created_at": 1.0, "token_ids": b""}
    with closing(sqlite3.connect(path)) as connection:
        db = Database(connection, strict=True, execute_plugins=False)
        MIGRATIONS.apply(db, stop_before="m004_principals")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 3")
        said = {"role": "user", "text": "Hi", "render_hash": "r", "token_ids": pack_ids((1,))}
        root = {"role": "system", "text": "Be brief.", "render_hash": "", "parent": None}
        db.table("message").insert(blank | root | {"id": system})
        db.table("message").insert(blank | said | {"id": question.id, "parent": system})
        times = {"created_at": 1.0, "updated_at": 2.0}
        conversation = {"id": "conv_1", "title": "T", "root": system, "tip": question.id, "used": 1}
        db.table("conversation").insert(conversation | times)
        response = {
            "id": "resp_1",
            "conversation": "conv_1",
            "question": question.id,
            "status": "in_progress",
            "owner": "flock_gone",
            "options": "{}",
            "render_hash": "r",
            "text": "Hel",
            "token_ids": pack_ids((7,)),
        }
        db.table("response").insert(response | times)
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


def test_a_file_of_the_third_schema_is_the_local_users(tmp_path: Path) -> None:
    """With all its branches, and what it says can be searched; what was running is recovered."""
    path = tmp_path / "s.db"
    as_of_version_3(path)
    with Store(path) as store:
        assert store.verify() == []
        (row,) = store.conversations(principal=ME, limit=5)
        assert (row.id, row.title, row.system, row.num_turns) == ("conv_1", "T", "Be brief.", 1)
        assert (row.listed, row.kept, row.metadata) == (True, True, {})
        assert texts(store, "conv_1") == ["Be brief.", "Hi", "Hel"]
        response = store.response("resp_1", principal=ME)
        assert (response.reason, response.sequence, response.metadata) == ("server_shutdown", 0, {})
        assert len(store.search("brief", principal=ME, limit=5)) == 1
        assert len(store.search("hel", principal=ME, limit=5)) == 1
        assert len(store.tree("conv_1", principal=ME)) == 3
        store.reopen_response("resp_1", principal=ME)
        finish(store, "resp_1")
        assert texts(store, "conv_1") == ["Be brief.", "Hi", "Hello"]
        store.delete_conversation("conv_1", principal=ME)
        assert set(counts(store).values()) == {0}
