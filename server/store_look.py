"""A look at the store's file that changes nothing: neither the file nor its folder.

For somebody who wants to know whether all is well, also where the file is damaged, is another
version's, or belongs to a process that writes it now. Knows no conversation.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlite_utils import Database

from radixchat.engine.errors import StoreError
from radixchat.server.migrations import APPLICATION_ID, SCHEMA_VERSION
from radixchat.server.rows import select
from radixchat.server.store_check import find_problems


@dataclass(frozen=True, slots=True)
class StoreLook:
    """What a file is. version, newest: of its schema, and of this program's. problems: in
    sentences; None: nobody has looked for them.
    """

    version: int
    newest: int
    conversations: int
    problems: tuple[str, ...] | None


def look(path: Path, *, verifies: bool) -> StoreLook:
    """What the file is; verifies: with what is wrong in it, where this version can tell.

    Raises StoreError where there is no database of ours that can be read.
    """
    try:
        with _read_only(path) as db:
            ((application,),) = db.execute("PRAGMA application_id").fetchall()
            ((version,),) = db.execute("PRAGMA user_version").fetchall()
            if application != APPLICATION_ID:
                raise StoreError(f"{path} is a database of something else")
            (row,) = select(db, "SELECT count(*) AS number FROM conversation")
            knows = verifies and version == SCHEMA_VERSION
            problems = tuple(find_problems(db)) if knows else None
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    return StoreLook(version, SCHEMA_VERSION, int(row["number"]), problems)


@contextmanager
def _read_only(path: Path) -> Iterator[Database]:
    """The file as it is at one moment. SQLite would make two files beside one that nobody uses."""
    in_use = path.with_name(f"{path.name}-wal").exists()
    address = f"file:{quote(str(path.absolute()))}?mode=ro{'' if in_use else '&immutable=1'}"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        yield Database(connection, execute_plugins=False)
