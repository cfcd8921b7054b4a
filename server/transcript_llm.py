"""The `logs.db` of Simon Willison's `llm`, read: its conversations as roles and texts.

Both of its schemas: `conversations` with `responses`, and, from 0.32 on, `threads` that point into
a tree of `messages` with `parts`. Only text is read; attachments, tool calls and their results are
counted as left out. Takes our open database to store them; knows not who may.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from radixchat.engine.errors import StoreError
from radixchat.server.rows import select
from radixchat.server.rows_message import Place, insert_message
from radixchat.server.store_conversation import ROLES
from radixchat.server.transcript_id import import_id

Said = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LoggedChat:
    """One conversation of llm's. messages: (role, text), a system message only as the first.

    left_out: parts that are no text, and later system messages. Times in seconds since the epoch.
    """

    id: str
    name: str
    messages: tuple[Said, ...]
    left_out: int
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class ImportedLogs:
    """What came of a file: the new conversations; how many were here, or had no text; parts that
    are not kept.
    """

    conversations: tuple[str, ...]
    num_here: int
    num_empty: int
    num_left_out: int


def read_logs(path: Path) -> list[LoggedChat]:
    """Its conversations, the oldest first; changes nothing. Raises StoreError."""
    if not path.is_file():
        raise StoreError(f"{path} is not there")
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            connection.text_factory = lambda stored: stored.decode(errors="replace")
            db = Database(connection, execute_plugins=False)
            names = set(db.table_names())
            has_threads = {"threads", "messages", "parts", "turns"} <= names
            has_responses = {"conversations", "responses"} <= names
            # A file that was brought up to date keeps its old conversations as they were.
            chats = _conversations(db) if has_responses else []
            chats += _threads(db) if has_threads else []
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be read ({error})") from error
    if not has_threads and not has_responses:
        raise StoreError(f"{path} is not a logs.db of llm")
    return list({chat.id: chat for chat in chats}.values())


def _threads(db: Database) -> list[LoggedChat]:
    last = "(SELECT max(datetime_utc) FROM turns WHERE thread_id = threads.id) AS updated"
    rows = select(db, f"SELECT *, {last} FROM threads ORDER BY id")
    fragments = _fragments(db)
    return [_chat(row, row["datetime_utc"], *_thread(db, row, fragments)) for row in rows]


def _thread(db: Database, row: dict[str, Any], fragments: dict[int, str]) -> tuple[list[Said], int]:
    path = """
    WITH RECURSIVE path(hash, depth) AS (
        SELECT :tip, 0
        UNION ALL
        SELECT parent_hash, depth + 1 FROM path JOIN messages USING (hash)
        WHERE parent_hash IS NOT NULL LIMIT (SELECT count(*) + 1 FROM messages)
    )
    SELECT hash, role, parts.* FROM path JOIN messages USING (hash)
    LEFT JOIN parts ON message_hash = hash ORDER BY depth DESC, position
    """
    said: dict[str, Said] = {}
    left_out = 0
    for part in select(db, path, tip=row["tip_message_hash"]):
        text = _part_text(part, fragments)
        if text is None:
            left_out += 1
            continue
        role, before = said.get(part["hash"], (str(part["role"]), ""))
        said[part["hash"]] = role, before + text
    return list(said.values()), left_out


def _part_text(part: dict[str, Any], fragments: dict[int, str]) -> str | None:
    """The text of a part; None where it is something else."""
    if part["type"] != "text":
        return None
    if part["text"] is not None:
        return str(part["text"])
    try:
        payload = json.loads(part["payload"] or "{}")
        pieces = payload.get("text_ref") or [{"literal": payload.get("text") or ""}]
        return "".join(
            piece["literal"] if "literal" in piece else fragments.get(piece["fragment"], "")
            for piece in pieces
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _fragments(db: Database) -> dict[int, str]:
    return {
        row["id"]: str(row["content"]) for row in select(db, "SELECT id, content FROM fragments")
    }


def _conversations(db: Database) -> list[LoggedChat]:
    chats = []
    for row in select(db, "SELECT * FROM conversations ORDER BY id"):
        responses = select(
            db, "SELECT * FROM responses WHERE conversation_id = :id ORDER BY id", id=row["id"]
        )
        said, left_out = _turns(db, responses)
        times = [response["datetime_utc"] for response in responses] or [None]
        chats.append(_chat(row | {"updated": times[-1]}, times[0], said, left_out))
    return chats


def _turns(db: Database, responses: Sequence[dict[str, Any]]) -> tuple[list[Said], int]:
    said: list[Said] = []
    left_out = 0
    for response in responses:
        for role, column in (("system", "system"), ("user", "prompt"), ("assistant", "response")):
            text = "\n".join([*_borrowed(db, role, response["id"]), str(response[column] or "")])
            if text:
                said.append((role, text))
        for table in ("prompt_attachments", "tool_calls", "tool_results"):
            if db.table(table).exists():
                count = f"SELECT count(*) AS n FROM {table} WHERE response_id = :id"
                left_out += int(select(db, count, id=response["id"])[0]["n"])
    return said, left_out


def _borrowed(db: Database, role: str, response: str) -> list[str]:
    """The fragments that a prompt or a system message begins with."""
    table = {"user": "prompt_fragments", "system": "system_fragments"}.get(role)
    if table is None or not db.table(table).exists():
        return []
    sql = f"""
    SELECT content FROM {table} JOIN fragments ON fragments.id = fragment_id
    WHERE response_id = :id ORDER BY "order"
    """
    return [str(row["content"]) for row in select(db, sql, id=response)]


def _chat(row: dict[str, Any], begun: object, said: list[Said], left_out: int) -> LoggedChat:
    """With a system message at its beginning only, and no empty message."""
    kept: list[Said] = []
    for role, text in said:
        if not text:
            continue
        if role not in ROLES or (role == "system" and kept):
            left_out += 1
        else:
            kept.append((role, text))
    created = _seconds(begun)
    return LoggedChat(
        id=str(row["id"]),
        name=str(row["name"] or ""),
        messages=tuple(kept),
        left_out=left_out,
        created_at=created,
        updated_at=max(created, _seconds(row["updated"])),
    )


def _seconds(written: object) -> float:
    """Of an ISO time, in UTC where it names no other zone; 0 of what is none."""
    try:
        at = datetime.fromisoformat(str(written))
    except ValueError:
        return 0.0
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def insert_chats(db: Database, principal: str, chats: Sequence[LoggedChat]) -> ImportedLogs:
    """Store them as the principal's, but for those that he has."""
    made: list[str] = []
    num_here = num_empty = num_left_out = 0
    for chat in chats:
        id_, is_here = import_id(db, principal, chat.id)
        if is_here:
            num_here += 1
        elif not chat.messages:
            num_empty += 1
        else:
            num_left_out += chat.left_out
            made.append(_insert_chat(db, principal, id_, chat))
    return ImportedLogs(tuple(made), num_here, num_empty, num_left_out)


def _insert_chat(db: Database, principal: str, id_: str, chat: LoggedChat) -> str:
    place, tip, root = Place(principal, searchable=True), None, None
    for role, text in chat.messages:
        tip = insert_message(
            db, place, parent=tip, role=role, text=text, created_at=chat.created_at
        )
        root = tip if role == "system" else root
    row = {
        "id": id_,
        "principal": principal,
        "title": chat.name,
        "root": root,
        "tip": tip,
        "used": 0,
        "created_at": chat.created_at,
        "updated_at": chat.updated_at,
    }
    db.table("conversation").insert(row)
    return id_
