"""llm's `logs.db`, both ways: read in each of its schemas, written so that it is read back."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils import Database

from radixchat.engine.errors import ConversationNotFound, StoreError
from radixchat.server.store import Store
from radixchat.server.transcript_llm import ImportedLogs, read_logs
from radixchat.tests.server.turns import ME, begin, counts, finish, load, say, texts

FIRST, SECOND = "01kaaaaaaaaaaaaaaaaaaaaaaa", "01kbbbbbbbbbbbbbbbbbbbbbbb"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs.db"


def old_logs(path: Path) -> None:
    """Two conversations as llm kept them until 0.31, with a fragment and an attachment."""
    db = Database(path)
    conversations: list[dict[str, Any]] = [
        {"id": FIRST, "name": "Eggs", "model": "m"},
        {"id": SECOND, "name": None, "model": "m"},
        {"id": "old-1", "name": "Empty", "model": "m"},
    ]
    db.table("conversations").insert_all(conversations, pk="id")
    response = {"conversation_id": FIRST, "system": None, "datetime_utc": "2024-05-01T10:00:00"}
    db.table("responses").insert_all(
        [
            {**response, "id": "1", "prompt": "How?", "response": "Boil.", "system": "Cook."},
            {
                **response,
                "id": "2",
                "prompt": "And?",
                "response": "Eat.",
                "system": "Be curt.",
                "datetime_utc": "2024-05-02T10:00:00+02:00",
            },
            {**response, "id": "3", "prompt": "", "response": "Hm", "conversation_id": SECOND},
        ],
        pk="id",
    )
    db.table("fragments").insert({"id": 7, "content": "A recipe."}, pk="id")
    db.table("prompt_fragments").insert({"response_id": "1", "fragment_id": 7, "order": 0})
    db.table("prompt_attachments").insert({"response_id": "2", "attachment_id": "a", "order": 0})
    db.close()


def new_logs(path: Path) -> None:
    """A fork of a thread, as llm keeps them from 0.32 on, with parts that are no text."""
    db = Database(path)
    chain = ["system", "user", "assistant", "tool", "assistant"]
    db.table("messages").insert_all(
        {"hash": f"h{n}", "parent_hash": f"h{n - 1}" if n else None, "role": role}
        for n, role in enumerate(chain)
    )
    ref = {"text_ref": [{"literal": "See "}, {"fragment": 7}, {"literal": "!"}]}
    part: dict[str, Any] = {"position": 0, "type": "text", "text": None, "payload": None}
    db.table("parts").insert_all(
        [
            {**part, "message_hash": "h0", "text": "Cook."},
            {**part, "message_hash": "h1", "payload": json.dumps(ref)},
            {**part, "message_hash": "h1", "position": 1, "type": "attachment"},
            {**part, "message_hash": "h2", "type": "reasoning", "text": "Hm"},
            {**part, "message_hash": "h2", "position": 1, "text": "Let me "},
            {**part, "message_hash": "h2", "position": 2, "text": "see."},
            {**part, "message_hash": "h3", "type": "tool_result", "payload": "not JSON"},
            {**part, "message_hash": "h4", "text": "Boil."},
        ]
    )
    db.table("fragments").insert({"id": 7, "content": "a recipe"}, pk="id")
    threads: list[dict[str, Any]] = [
        {"id": FIRST, "name": "Eggs", "tip_message_hash": "h4", "datetime_utc": "2025-01-01"},
        {"id": SECOND, "name": "Fork", "tip_message_hash": "h2", "datetime_utc": "bad"},
        {"id": "x", "name": "Lost", "tip_message_hash": "h9", "datetime_utc": None},
    ]
    db.table("threads").insert_all(threads)
    turn = {"thread_id": FIRST, "datetime_utc": "2025-01-02T00:00:00"}
    db.table("turns").insert({"id": "t", **turn})
    db.close()


def test_the_old_schema(store: Store, logs: Path) -> None:
    """System, prompts with their fragments and answers; a second import finds all of it."""
    old_logs(logs)
    imported = store.import_llm_logs(logs, principal=ME)
    first, second = imported.conversations
    assert imported == ImportedLogs((first, second), 0, 1, 2)
    assert first == f"conv_{FIRST.upper()}"
    assert texts(store, first) == ["Cook.", "A recipe.\nHow?", "Boil.", "And?", "Eat."]
    assert texts(store, second) == ["Hm"]
    row = store.conversation(first, principal=ME)
    assert (row.title, row.system, row.num_turns) == ("Eggs", "Cook.", 2)
    assert (row.created_at, row.updated_at) == (1714557600.0, 1714636800.0)
    assert store.latest(principal=ME) is None
    before = counts(store)
    assert store.import_llm_logs(logs, principal=ME) == ImportedLogs((), 2, 1, 0)
    assert counts(store) == before
    theirs = store.import_llm_logs(logs, principal="ada")
    assert len(theirs.conversations) == 2
    assert store.import_llm_logs(logs, principal="ada").num_here == 2
    say(store, first, "Thanks", "Welcome")


def test_the_new_schema(store: Store, logs: Path) -> None:
    """Each thread's path; forks share their rows here as they do there."""
    new_logs(logs)
    imported = store.import_llm_logs(logs, principal=ME)
    first, second = imported.conversations
    assert (imported.num_empty, imported.num_left_out) == (1, 5)
    assert texts(store, first) == ["Cook.", "See a recipe!", "Let me see.", "Boil."]
    assert texts(store, second) == ["Cook.", "See a recipe!", "Let me see."]
    assert counts(store)["message"] == 4
    assert store.conversation(first, principal=ME).updated_at == 1735776000.0
    assert store.conversation(second, principal=ME).created_at == 0.0


def test_both_schemas_in_one_file(store: Store, logs: Path) -> None:
    """A file that was brought up to date keeps the old conversations where they were."""
    new_logs(logs)
    db = Database(logs)
    db.table("conversations").insert({"id": "01kccccccccccccccccccccccc", "name": "Older"})
    old = {"id": "1", "prompt": "Q", "response": "A", "system": None, "datetime_utc": None}
    db.table("responses").insert(old | {"conversation_id": "01kccccccccccccccccccccccc"})
    db.close()
    assert len(store.import_llm_logs(logs, principal=ME).conversations) == 3


def test_what_is_no_logs_db(store: Store, logs: Path, tmp_path: Path) -> None:
    """A missing file, another file, another database, our own."""
    with pytest.raises(StoreError, match="is not there"):
        read_logs(logs)
    logs.write_text("text" * 500)
    with pytest.raises(StoreError, match=r"logs\.db cannot be read"):
        read_logs(logs)
    Database(tmp_path / "other.db").table("a").insert({"b": 1})
    for other in (tmp_path / "other.db", store._file.path):
        with pytest.raises(StoreError, match=r"is not a logs\.db of llm"):
            read_logs(other)
    before = other.read_bytes()
    with pytest.raises(StoreError):
        read_logs(other)
    assert other.read_bytes() == before


def test_damaged_values_are_text(store: Store, logs: Path) -> None:
    """Numbers, bytes and bad UTF-8 where there should be words."""
    db = Database(logs)
    db.execute("CREATE TABLE conversations (id, name, model)")
    db.execute(
        "CREATE TABLE responses (id, conversation_id, system, prompt, response, datetime_utc)"
    )
    db.execute("INSERT INTO conversations VALUES (1, CAST(x'ff' AS TEXT), NULL)")
    db.execute("INSERT INTO responses VALUES (1, 1, NULL, 5, CAST(x'41ff' AS TEXT), 7)")
    db.conn.commit()
    db.close()
    (made,) = store.import_llm_logs(logs, principal=ME).conversations
    assert texts(store, made) == ["5", "A\ufffd"]


def written(store: Store, logs: Path) -> list[str]:
    """Three conversations in a new logs.db; their ids."""
    first = store.create_conversation(principal=ME, system="Cook.")
    answer = say(store, first, "How long do eggs take?", "Eight minutes.")
    say(store, first, "Sure?", "Yes.")
    fork = store.create_conversation(principal=ME, tip=answer, title="Ham")
    begin(store, fork, "And ham?")
    grafted = store.create_conversation(principal=ME)
    said = [("assistant", "Hello!"), ("user", "Hi"), ("user", "You?")]
    store.graft(grafted, principal=ME, messages=said, expected_tip=None)
    finish(store, begin(store, first, "Gone").id, "Part", status="incomplete")
    conversations = [first, fork, grafted]
    assert store.export_llm(logs, conversations, principal=ME) == 8
    return conversations


def test_what_is_written_is_read_back(store: Store, logs: Path, tmp_path: Path) -> None:
    """Texts, names and times; only the owner can read the file."""
    conversations = written(store, logs)
    assert stat.S_IMODE(logs.stat().st_mode) == 0o600
    with Store(tmp_path / "other.db") as other:
        imported = other.import_llm_logs(logs, principal="ada")
        assert list(imported.conversations) == conversations
        for conversation in conversations:
            assert texts(other, conversation, "ada") == texts(store, conversation)
            theirs = other.conversation(conversation, principal="ada")
            first = load(store, conversation).user_messages[0]
            assert theirs.title == (
                store.conversation(conversation, principal=ME).title or first.text
            )
    with pytest.raises(StoreError, match="exists already"):
        store.export_llm(logs, conversations, principal=ME)
    with pytest.raises(ConversationNotFound):
        store.export_llm(tmp_path / "x.db", conversations, principal="ada")
    assert not (tmp_path / "x.db").exists()


def test_costs_go_along(store: Store, logs: Path) -> None:
    """Tokens, options, and the system message once."""
    written(store, logs)
    db = Database(logs)
    rows = list(db.query("SELECT * FROM responses ORDER BY id"))
    assert [row["system"] for row in rows if row["system"]] == ["Cook."] * 2
    first = rows[0]
    assert (first["prompt"], first["response"]) == ("How long do eggs take?", "Eight minutes.")
    assert (first["input_tokens"], first["output_tokens"]) == (2, 6)
    assert json.loads(first["options_json"]) == {"temperature": 0.5}
    db.close()


@pytest.mark.slow
def test_llm_itself_reads_it(store: Store, logs: Path) -> None:
    """The real one opens the file, brings it up to date, lists and searches it."""
    program = os.environ.get("RADIXCHAT_LLM")
    if program is None:
        pytest.skip("RADIXCHAT_LLM does not name the program llm")
    conversations = written(store, logs)

    def llm(*arguments: str) -> list[dict[str, Any]]:
        command = [program, "logs", "list", "--json", "-d", str(logs), *arguments]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows: list[dict[str, Any]] = json.loads(listed)
        return rows

    assert len(llm("-n", "0")) == 8
    assert {row["conversation_id"] for row in llm("-q", "eggs")} == {
        id_.removeprefix("conv_").lower() for id_ in conversations[:2]
    }
    with Store(logs.with_name("other.db")) as other:
        imported = other.import_llm_logs(logs, principal=ME)
        assert list(imported.conversations) == conversations
