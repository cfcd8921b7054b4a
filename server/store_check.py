"""Whether a file's rows agree with each other, in sentences for people.

Takes the open database. Knows nothing of how a file is opened or repaired.
"""

from __future__ import annotations

import sqlite3

from sqlite_utils import Database

from radixchat.server.rows import select
from radixchat.server.rows_message import unsound_messages

# What has to hold between rows, beyond that they exist; a sentence and those that break it.
_RULES = (
    (
        "message {id} is held by {principal}, who does not hold the one before it",
        """
        SELECT message.id, principal FROM holding JOIN message ON message.id = message
        WHERE parent IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM holding AS other
            WHERE other.message = parent AND other.principal = holding.principal
        )
        """,
    ),
    (
        "message {id} is held by nobody",
        "SELECT id FROM message WHERE id NOT IN (SELECT message FROM holding)",
    ),
    (
        "conversation {id} is at a message that {principal} does not hold",
        """
        SELECT id, principal FROM conversation WHERE tip IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM holding
            WHERE message = tip AND holding.principal = conversation.principal
        )
        """,
    ),
    (
        "conversation {id} has passed a message that {principal} does not hold",
        """
        SELECT id, principal FROM passed JOIN conversation ON id = conversation
        WHERE NOT EXISTS (
            SELECT 1 FROM holding WHERE holding.message = passed.message
            AND holding.principal = conversation.principal
        )
        """,
    ),
    (
        "conversation {id} does not begin with its system message",
        """
        WITH RECURSIVE up(conversation, id) AS (
            SELECT id, tip FROM conversation WHERE tip IS NOT NULL
            UNION
            SELECT conversation, parent FROM up JOIN message USING (id) WHERE parent IS NOT NULL
        )
        SELECT conversation.id FROM up JOIN message USING (id)
        JOIN conversation ON conversation.id = up.conversation
        WHERE parent IS NULL AND root IS NOT CASE role WHEN 'system' THEN message.id END
        """,
    ),
    (
        "response {id} is not of the principal of its conversation",
        """
        SELECT response.id FROM response JOIN conversation ON conversation.id = conversation
        WHERE response.principal != conversation.principal
        """,
    ),
    (
        "response {id} has a question or an answer that {principal} does not hold",
        """
        SELECT id, principal FROM (
            SELECT id, principal, question AS message FROM response
            UNION ALL
            SELECT id, principal, answer FROM response WHERE answer IS NOT NULL
        ) AS made
        WHERE NOT EXISTS (
            SELECT 1 FROM holding
            WHERE holding.message = made.message AND holding.principal = made.principal
        )
        """,
    ),
    (
        "the answer of response {id} does not follow its question",
        """
        SELECT response.id FROM response JOIN message ON message.id = answer
        WHERE parent IS NOT question
        """,
    ),
    (
        "event {id!r} began a response of somebody else's",
        """
        SELECT event_id AS id FROM idempotency JOIN response ON response.id = response
        WHERE response.principal != idempotency.principal
        """,
    ),
    (
        "message {id} can be searched, but what comes before it cannot",
        """
        SELECT message.id FROM holding JOIN message ON message.id = holding.message
        JOIN holding AS other ON other.message = parent AND other.principal = holding.principal
        WHERE holding.searchable AND NOT other.searchable
        """,
    ),
    (
        "the search index does not have just the messages that can be searched: number {id}",
        """
        SELECT number AS id FROM holding WHERE searchable
        AND number NOT IN (SELECT id FROM message_fts_docsize)
        UNION ALL SELECT id FROM message_fts_docsize
        WHERE id NOT IN (SELECT number FROM holding WHERE searchable)
        """,
    ),
)


def find_problems(db: Database) -> list[str]:
    """What is wrong; raises what SQLite raises of a file that it cannot read."""
    problems = [f"message {id_} does not match its content" for id_ in unsound_messages(db)]
    for row in select(db, "PRAGMA integrity_check"):
        if row["integrity_check"] != "ok":
            problems.append(f"integrity check: {row['integrity_check']}")
    for row in select(db, "PRAGMA foreign_key_check"):
        problems.append(f"{row['table']} row {row['rowid']} refers to nothing")
    for sentence, broken_by in _RULES:
        problems += [sentence.format(**row) for row in select(db, broken_by)]
    return problems + _index_problems(db)


def _index_problems(db: Database) -> list[str]:
    """SQLite's own check of the index, which is asked for as if something were written."""
    try:
        with db.atomic():
            db.execute("INSERT INTO message_fts(message_fts) VALUES ('integrity-check')")
    except sqlite3.DatabaseError as error:
        code = error.sqlite_errorcode & 0xFF
        if code == sqlite3.SQLITE_READONLY:  # of such a file the index is not looked into
            return []
        if code != sqlite3.SQLITE_CORRUPT:
            raise
        return [f"the search index is damaged ({error})"]
    return []
