"""Whether a file's rows agree with each other, in sentences for people.

Takes the open database. Knows nothing of how a file is opened or repaired.
"""

from __future__ import annotations

from sqlite_utils import Database

from radixchat.server.rows import select
from radixchat.server.rows_message import unsound_messages


def find_problems(db: Database) -> list[str]:
    """What is wrong; raises what SQLite raises of a file that it cannot read."""
    problems = [f"message {id_} does not match its content" for id_ in unsound_messages(db)]
    for row in select(db, "PRAGMA integrity_check"):
        if row["integrity_check"] != "ok":
            problems.append(f"integrity check: {row['integrity_check']}")
    for row in select(db, "PRAGMA foreign_key_check"):
        problems.append(f"{row['table']} row {row['rowid']} refers to nothing")
    return problems
