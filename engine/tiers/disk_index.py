"""`DiskIndex`: the open SQLite index of a folder of pages; and what an error of it means.

    damage   the file does not hold together, or is no index: it is of no use any more
    moved    the folder was deleted, or another process began it anew: open it again
    busy     another process has not let go for long: not now
    else     no room, no permission, a broken disk: nothing to be done from here

Every connection is used by one thread at a time, and lent out for that. Knows no page's meaning.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from radixchat.engine.tiers.disk_format import APPLICATION_ID, FORMAT, INDEX, SCHEMA
from radixchat.engine.tiers.disk_lock import FolderBusy

BUSY_SECONDS = 5.0
# 2 MiB of log: INDEX_BYTES counts on it.
CHECKPOINT_PAGES = 512

_DAMAGE = {
    sqlite3.SQLITE_ERROR,  # no such table
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_SCHEMA,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_INTERNAL,
}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}


class DamagedIndex(Exception):
    """What the index says cannot be."""


class MovedIndex(Exception):
    """It is not what is in the folder any more."""


class NewerFormat(Exception):
    """A later version of this program has written it: it is left alone."""


FAILURES = (sqlite3.Error, OSError, DamagedIndex, MovedIndex, FolderBusy)
"""What any use of an index raises."""


class Connection(sqlite3.Connection):
    """counts: what happened on it; added to without a lock, by whoever uses it now."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.counts: Counter[str] = Counter()


class DiskIndex:
    """All calls raise FAILURES."""

    def __init__(self, folder: Path) -> None:
        """Open it, or make it; whoever calls holds the folder's lock. Raises NewerFormat too."""
        self._path = folder / INDEX
        self._spare: list[Connection] = []
        self._is_closed = False
        self.counts: list[Counter[str]] = []
        # SQLite gives its log the index's permissions. A file that is there is not opened: closing
        # it would end the locks that SQLite has on it anywhere in this process (POSIX), and the
        # next process that leaves would take the log away from under it.
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        self._stat = self._path.stat()
        try:
            with self.connection() as db:
                _prepare(db)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for one thread, for as long as the block lasts."""
        db = self._spare.pop() if self._spare else self._connect()
        try:
            yield db
        finally:
            if self._is_closed:
                db.close()
            else:
                self._spare.append(db)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction alone among writers: all of the block is done, or nothing."""
        with self.connection() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @property
    def is_current(self) -> bool:
        """Whether this is still what others find in the folder."""
        try:
            return os.path.samestat(self._path.stat(), self._stat)
        except OSError:
            return False

    def close(self) -> None:
        """Close what is not in use; what is, closes when it is given back."""
        self._is_closed = True
        while self._spare:
            self._spare.pop().close()

    def _connect(self) -> Connection:
        db = sqlite3.connect(
            self._path,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        try:
            db.execute("PRAGMA cell_size_check = ON")  # a damaged index says so, not something else
            # A page without a row is a miss; a row without a page is found by its checksum.
            # So a power cut may lose the last rows, and no transaction waits for the disk.
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            db.execute(f"PRAGMA journal_size_limit = {CHECKPOINT_PAGES * 4096}")
        except sqlite3.Error:
            db.close()
            raise
        self.counts.append(db.counts)
        return db


def failure_of(error: BaseException) -> str:
    """ "damage", "moved", "busy", or what prevents any further use, in words."""
    if isinstance(error, MovedIndex):
        return "moved"
    if isinstance(error, DamagedIndex):
        return "damage"
    if isinstance(error, FolderBusy):
        return "busy"
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        if code is None or code == sqlite3.SQLITE_IOERR_SHORT_READ or code & 0xFF in _DAMAGE:
            return "damage"
        if code & 0xFF in _BUSY:
            return "busy"
    return str(error)


def _prepare(db: Connection) -> None:
    (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (program,) = db.execute("PRAGMA application_id").fetchone()
    if tables == 0:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(
            f"BEGIN; {SCHEMA} PRAGMA application_id = {APPLICATION_ID};"
            f" PRAGMA user_version = {FORMAT}; COMMIT"
        )
        return
    if program != APPLICATION_ID or not 1 <= version <= 1000:
        raise DamagedIndex(f"application {program:#x}, version {version}")
    if version > FORMAT:
        raise NewerFormat(f"it has format {version}, and this program knows {FORMAT}")
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise OSError(f"its file system admits no write-ahead log (journal_mode is {mode})")
