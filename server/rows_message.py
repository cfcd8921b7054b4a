"""Messages in the database, and who holds them: the statements for one thing each.

A message is held by each principal who said it or was answered so, and with it its ancestors.
Every function takes the open database and is a part of the caller's transaction. Knows no
conversation but as the place where something is said.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlite_utils import Database

from radixchat.engine.errors import InvalidRequest, StoreError
from radixchat.server.message import (
    NOTHING,
    LeftOut,
    Message,
    message_id,
    pack_ids,
    unpack_ids,
)
from radixchat.server.rows import select
from radixchat.server.store_words import searchable_text

COLUMNS = (
    "id, parent, role, text, token_ids, absolute, status, render_hash, left_out, left_out_tokens"
)

_PATH = f"""
WITH RECURSIVE path(id, depth) AS (
    SELECT :tip, 0
    UNION ALL
    SELECT message.parent, depth + 1 FROM path JOIN message USING (id)
    WHERE message.parent IS NOT NULL
    LIMIT (SELECT coalesce(max(rowid), 0) + 1 FROM message)  -- ends a loop, which only damage makes
)
SELECT {COLUMNS}, holding.created_at FROM path JOIN message USING (id)
JOIN holding ON holding.message = id AND holding.principal = :principal
ORDER BY depth DESC
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message is said: whose it is, and whether full-text search finds it there."""

    principal: str
    searchable: bool


def find_path(db: Database, tip: str, principal: str) -> list[Message]:
    """From the root, or from the first message that the principal holds, to `tip`."""
    rows = select(db, _PATH, tip=tip, principal=principal)
    return [to_message(row) for row in rows]


def holds(db: Database, principal: str, message: str) -> bool:
    """Whether the principal has said that message, or been answered so."""
    held = "SELECT 1 FROM holding WHERE message = :message AND principal = :principal"
    return bool(select(db, held, message=message, principal=principal))


def find_root(db: Database, message: str) -> tuple[str | None, str]:
    """The system message that the path to a message begins with, if any, and its own role.

    Raises InvalidRequest where there is no such path.
    """
    up = """
    WITH RECURSIVE up(id) AS (
        SELECT :message UNION SELECT message.parent FROM up JOIN message USING (id)
    )
    SELECT id, role, parent FROM up JOIN message USING (id)
    """
    found = select(db, up, message=message)
    own = next((row for row in found if row["id"] == message), None)
    root = next((row for row in found if row["parent"] is None), None)
    if own is None or root is None:
        raise InvalidRequest(f"there is no message {message!r}")
    return (str(root["id"]) if root["role"] == "system" else None), str(own["role"])


def insert_message(
    db: Database,
    place: Place,
    *,
    parent: str | None,
    role: str,
    text: str,
    token_ids: Sequence[int] = (),
    absolute: bool = False,
    status: str = "complete",
    render_hash: str = "",
    left_out: LeftOut = NOTHING,
    created_at: float | None = None,
) -> str:
    """The id of that message, stored now or before: equal content is one row.

    created_at: since when the principal has it; None: from now on.
    """
    id_ = message_id(
        parent=parent,
        role=role,
        text=text,
        token_ids=token_ids,
        absolute=absolute,
        status=status,
        render_hash=render_hash,
        left_out=left_out,
    )
    now = time.time() if created_at is None else created_at
    row = {
        "id": id_,
        "parent": parent,
        "role": role,
        "text": text,
        "token_ids": pack_ids(token_ids),
        "absolute": absolute,
        "status": status,
        "render_hash": render_hash,
        "created_at": now,
        "left_out": left_out.messages,
        "left_out_tokens": left_out.tokens,
    }
    db.table("message").insert(row, ignore=True)
    held = {"principal": place.principal, "message": id_, "searchable": 0, "created_at": now}
    db.table("holding").insert(held, ignore=True)
    if place.searchable:
        make_searchable(db, place.principal, id_)
    return id_


def make_searchable(db: Database, principal: str, tip: str) -> None:
    """Index the words of a path that are not yet.

    A message is indexed only after its parent: at the first that is, the walk is over.
    """
    held = """
    SELECT number, searchable, parent, text FROM holding JOIN message ON message.id = message
    WHERE message = :message AND principal = :principal
    """
    message: str | None = tip
    while message is not None:
        (row,) = select(db, held, message=message, principal=principal)
        if row["searchable"]:
            return
        db.execute("UPDATE holding SET searchable = 1 WHERE number = ?", [row["number"]])
        words = "INSERT INTO message_fts(rowid, text) VALUES (?, ?)"
        db.execute(words, [row["number"], searchable_text(row["text"])])
        message = row["parent"]


def unsound_messages(db: Database) -> Iterator[str]:
    """The ids of the messages whose content does not give their id."""
    for row in db.query(f"SELECT {COLUMNS}, created_at FROM message"):
        try:
            message = to_message(row)
        except StoreError:  # not even a whole number of token ids
            yield str(row["id"])
            continue
        derived = message_id(
            parent=message.parent,
            role=message.role,
            text=message.text,
            token_ids=message.token_ids,
            absolute=message.absolute,
            status=message.status,
            render_hash=message.render_hash,
            left_out=message.left_out,
        )
        if derived != message.id:
            yield message.id


def to_message(row: dict[str, Any]) -> Message:
    """Of a row with COLUMNS and created_at; raises StoreError where it is damaged."""
    left_out = LeftOut(row.pop("left_out"), row.pop("left_out_tokens"))
    try:
        unpacked = {"token_ids": unpack_ids(row["token_ids"]), "absolute": bool(row["absolute"])}
    except TypeError as error:  # NULL where none can be
        raise StoreError(f"message {row['id']} is damaged: {error}") from error
    return Message(**row | unpacked, left_out=left_out)
