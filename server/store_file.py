"""The store's SQLite file: opened, checked to be ours, brought up to date, and locked to write.

Owns the connection, its pragmas, the transactions and the words for what can go wrong. Knows no
conversation and no message.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlite_utils import Database

from radixchat.engine.errors import StoreError
from radixchat.server.migrations import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION
from radixchat.server.new_file import new_file

BUSY_SECONDS = 5.0

_CAUSES = {
    sqlite3.SQLITE_NOTADB: "is not a SQLite database; choose another file",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore a copy, or try `sqlite3 FILE .recover`",
    sqlite3.SQLITE_FULL: "cannot grow, the disk is full; nothing stored before is lost",
    sqlite3.SQLITE_READONLY: "cannot be written",
    sqlite3.SQLITE_PERM: "cannot be written",
    sqlite3.SQLITE_IOERR: "could not be read or written; nothing stored before is lost",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; is its folder writable?",
    sqlite3.SQLITE_BUSY: f"has been locked by another process for {BUSY_SECONDS:g} s; try again",
}


class StoreFile:
    """An open database with the current schema; ":memory:" is one that is gone when closed.

    Creates the missing folders (0700) and the file (0600). Raises StoreError for whatever is not
    a database of ours that can be read and written, with the path and the cause. May be used by
    one thread at a time, not necessarily by the one that opened it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.in_memory = str(path) == ":memory:"
        with self.explained():
            if not self.in_memory:
                _create(path)
            connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
        self._connection = connection
        self._identity: tuple[int, int] | None = None
        try:
            with self.explained():
                self._db = Database(connection, strict=True, execute_plugins=False)
                self._prepare()
                self._identity = self._file_identity()
        except BaseException:
            connection.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """The database, to read; each statement sees one state. Raises StoreError."""
        with self.explained():
            yield self._db

    @contextmanager
    def writing(self) -> Iterator[Database]:
        """One write transaction: committed at the end, rolled back on any exception.

        BEGIN IMMEDIATE takes the write lock first, and waits for it. (`Database.atomic` begins
        DEFERRED: two processes that both read and then write would fail instead of waiting.)
        Raises StoreError, also where the path names another file than the one that was opened:
        what is written to a deleted file is lost without any error of SQLite's.
        """
        with self.explained():
            self._begin()
            try:
                yield self._db
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk has rolled it back already
                    self._connection.execute("ROLLBACK")
                raise

    def copy_to(self, path: Path) -> None:
        """Write a copy to a new file (0600), whole or not at all. Raises StoreError.

        It is the file as it is at one moment; other processes may write meanwhile.
        """
        with self.explained(), new_file(path) as unfinished:
            self._connection.execute("VACUUM INTO ?", [str(unfinished)])

    def _begin(self) -> None:
        """Take the write lock, or raise SQLITE_BUSY after BUSY_SECONDS.

        SQLite's own wait soon looks only ten times a second, and hardly ever meets the gap
        between two transactions of a process that writes in a loop. Measured with four such
        processes: the longest wait is 0.13 s, against 1.9 s.
        """
        run = self._connection.execute
        self._require_same_file()
        run("PRAGMA busy_timeout = 0")
        give_up = time.monotonic() + BUSY_SECONDS
        try:
            while True:
                try:
                    run("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if not _is_busy(error) or time.monotonic() > give_up:
                        raise
                time.sleep(0.001 + 0.002 * random.random())
        finally:
            run(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")

    def _file_identity(self) -> tuple[int, int] | None:
        """Device and inode that the path names; None in memory."""
        if self.in_memory:
            return None
        status = self.path.stat()
        return status.st_dev, status.st_ino

    def _require_same_file(self) -> None:
        if self._identity is None:  # in memory, or still being opened
            return
        try:
            same = self._identity == self._file_identity()
        except FileNotFoundError:
            same = False
        if not same:
            raise StoreError(
                f"{self.path} was deleted or replaced while it was in use; what follows would be "
                "lost: start again, or put the file back"
            )

    def close(self) -> None:
        """Close the connection; a second time does nothing."""
        self._connection.close()

    def _prepare(self) -> None:
        run = self._connection.execute
        run(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
        # Before anything is written to a file that may not be ours; one look, in a transaction,
        # lest another process makes the schema between two of its questions.
        run("BEGIN")
        self._check_identity()
        run("COMMIT")
        self._enter_wal()
        # FULL: a turn is on the disk before it is computed, through a power cut too. Measured:
        # 0.2 ms a commit against 0.02 ms with NORMAL, and there are two or three commits a second.
        run("PRAGMA synchronous = FULL")
        run("PRAGMA foreign_keys = ON")
        # What is deleted is overwritten, and does not wait for its page to be used again.
        run("PRAGMA secure_delete = ON")
        if self._pragma("user_version") < SCHEMA_VERSION:
            self._migrate()

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _check_identity(self) -> None:
        application = self._pragma("application_id")
        version = self._pragma("user_version")
        if application != APPLICATION_ID:
            objects = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if application or version or objects:
                raise StoreError(f"{self.path} is a database of another program; choose another")
        elif version > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} was written by a newer radixchat (schema {version}; this one knows "
                f"{SCHEMA_VERSION}): upgrade radixchat, or choose another file"
            )

    def _enter_wal(self) -> None:
        """Write-ahead log: readers and the writer do not wait for each other.

        The change needs the file alone, and SQLite does not wait for a writer here: of two
        processes that open a new file at once, one is refused and must try again. Where there
        is no shared memory the mode stays as it was; every transaction holds there too.
        """
        give_up = time.monotonic() + BUSY_SECONDS
        while self._connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete":
            try:
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
                return
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > give_up:
                    raise
                time.sleep(0.01)

    def _migrate(self) -> None:
        """Apply the missing steps in one transaction; who comes second finds nothing missing."""
        with self.writing() as db:
            self._check_identity()
            MIGRATIONS.apply(db)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the errors of SQLite and of the file system into StoreError, with the path."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            cause = _CAUSES.get(code, "cannot be used")
            raise StoreError(f"{self.path} {cause} ({error})") from error
        except OSError as error:
            raise StoreError(f"{self.path} cannot be used: {error.strerror or error}") from error
        except UnicodeDecodeError as error:  # the sqlite3 module's way to say it of a schema
            raise StoreError(f"{self.path} {_CAUSES[sqlite3.SQLITE_CORRUPT]} ({error})") from error


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _create(path: Path) -> None:
    """The file and its folders, if they are missing; raises StoreError or OSError."""
    for folder in reversed(path.absolute().parents):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    if path.is_dir():
        raise StoreError(f"{path} is a folder; name a file in it")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        # Not opened even to look: closing it would drop the locks of every other connection
        # that this process has to it (POSIX). But SQLite takes a file of less than a page for an
        # empty one, and would write over it.
        if 0 < path.stat().st_size < 512:
            raise StoreError(f"{path} is not a SQLite database; choose another file") from None
        # SQLite would open it to read, and fail at the first turn.
        effective = os.access in os.supports_effective_ids
        if not os.access(path, os.R_OK | os.W_OK, effective_ids=effective):
            raise StoreError(f"{path} cannot be written; is it read-only?") from None
