"""Conversations in the database: the statements for one thing each.

Every function takes the open database and is a part of the caller's transaction. Knows not when a
change is allowed: that is `store_conversation.py` and `store.py`.
"""

from __future__ import annotations

import json
from typing import Any

from sqlite_utils import Database

from radixchat.engine.errors import ConversationNotFound, StoreError
from radixchat.server.rows import RUNNING, ConversationRow, select
from radixchat.server.rows_message import Place

# White space before the first word would be all that a short beginning shows.
OPENING_CHARACTERS = 200

_CONVERSATION = f"""
SELECT c.id, c.principal, c.title, c.tip, root.text AS system, c.listed, c.kept, c.metadata,
    c.created_at, c.updated_at,
    (
        WITH RECURSIVE up(id) AS (
            SELECT c.tip UNION SELECT message.parent FROM up JOIN message USING (id)
        )
        SELECT count(*) FROM up JOIN message USING (id) WHERE role = 'user'
    ) AS num_turns,
    coalesce((
        WITH RECURSIVE up(id, depth) AS (
            SELECT c.tip, 0 UNION ALL
            SELECT message.parent, depth + 1 FROM up JOIN message USING (id)
            WHERE message.parent IS NOT NULL
            LIMIT (SELECT coalesce(max(rowid), 0) + 1 FROM message)  -- ends a loop of damaged rows
        )
        SELECT substr(ltrim(text, char(9, 10, 13, 32)), 1, {OPENING_CHARACTERS})
        FROM up JOIN message USING (id) WHERE role = 'user' ORDER BY depth DESC LIMIT 1
    ), '') AS opening,
    (SELECT id FROM response WHERE conversation = c.id AND {RUNNING}) AS running
FROM conversation AS c LEFT JOIN message AS root ON root.id = c.root
"""

_BEFORE = """
AND (c.updated_at, c.id) < (SELECT updated_at, id FROM conversation WHERE id = :after)
"""


def find_conversation(db: Database, conversation: str, principal: str) -> ConversationRow:
    """The principal's conversation of that full id; raises ConversationNotFound."""
    own = f"{_CONVERSATION} WHERE c.id = :id AND c.principal = :principal"
    for row in select(db, own, id=conversation, principal=principal):
        return _conversation(row)
    raise ConversationNotFound(f"there is no conversation {conversation!r}")


def find_conversations(
    db: Database, principal: str, limit: int, after: str | None
) -> list[ConversationRow]:
    """The listed ones, the last changed first; `after`: only such as follow that one."""
    sql = f"{_CONVERSATION} WHERE c.principal = :principal AND c.listed"
    if after is not None:
        sql += _BEFORE
    sql += " ORDER BY c.updated_at DESC, c.id DESC LIMIT :limit"
    values = {"principal": principal, "limit": limit, "after": after}
    return [_conversation(row) for row in select(db, sql, **values)]


def find_prefix(db: Database, prefix: str, principal: str) -> list[str]:
    """The ids of the listed conversations that start so; of many, the first four."""
    # An id's characters are digits and capitals, so that a range finds exactly a prefix.
    matching = """
    SELECT id FROM conversation WHERE id BETWEEN :first AND :last
    AND principal = :principal AND listed ORDER BY id LIMIT 4
    """
    values = {"first": prefix, "last": prefix + "~", "principal": principal}
    return [str(row["id"]) for row in select(db, matching, **values)]


def find_latest(db: Database, principal: str) -> str | None:
    """The listed conversation in which a turn was last begun or finished."""
    last = """
    SELECT id FROM conversation WHERE principal = :principal AND used > 0 AND listed
    ORDER BY used DESC LIMIT 1
    """
    return next((str(row["id"]) for row in select(db, last, principal=principal)), None)


def find_place(db: Database, conversation: str) -> Place:
    """Whose that conversation's messages are, and whether they can be searched."""
    sql = "SELECT principal, listed AND kept AS searchable FROM conversation WHERE id = :id"
    (row,) = select(db, sql, id=conversation)
    return Place(row["principal"], bool(row["searchable"]))


def mark_passed(db: Database, conversation: str, message: str) -> None:
    """Keep that the conversation was there: its tip may move on, and no turn tell of it."""
    row = {"conversation": conversation, "message": message}
    db.table("passed").insert(row, ignore=True)


def mark_used(db: Database, conversation: str) -> None:
    """Make it the conversation last used."""
    last = "(SELECT max(used) FROM conversation)"
    db.execute(f"UPDATE conversation SET used = 1 + {last} WHERE id = ?", [conversation])


def _conversation(row: dict[str, Any]) -> ConversationRow:
    try:
        metadata = json.loads(row["metadata"])
    except ValueError as error:
        raise StoreError(f"conversation {row['id']} is damaged: {error}") from error
    flags = {"listed": bool(row["listed"]), "kept": bool(row["kept"])}
    return ConversationRow(**row | flags | {"metadata": metadata})
