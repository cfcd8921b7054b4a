"""Which process is answering, and whether it still lives.

A response in progress belongs to the process that computes it. When that process is killed,
whoever comes next may take the response over, at once; while it lives, nobody may.

A process proves that it lives by an exclusive `flock` on a file of its own beside the database:
the kernel drops it the moment the process ends, however it ends. A process id proves less: it
is reused, and in every container it is 1. A heartbeat proves it only by waiting until the beat
is late, and takes a stopped process (Ctrl-Z, a laptop asleep) for a dead one. `fcntl.lockf`
locks would go when *any* descriptor of the file is closed in the process; a flock belongs to
one open file, so that two owners in one process do not disturb each other. (A forked child would
keep it; nothing here forks, and `exec` closes the file.) Where there is no flock (Windows, some
network file systems) the heartbeat has to do: the name says which.

    sessions.db-owner-01K…     owner "flock_01K…": lives while that file is locked
    (no file)                  owner "lease_01K…": lives while its response's heartbeat is young
"""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

from ulid import ULID

# Twenty missed heartbeats (one each 0.5 s): more than a long step of the engine takes.
LEASE_SECONDS = 10.0


class Owner:
    """This process' claim to its responses, and its view of the others'.

    database: the path of the file; None for one in memory, which no other process can see.
    locks: False does without flock. Raises OSError where the folder cannot be read or written.
    """

    def __init__(self, database: Path | None, *, locks: bool = True) -> None:
        self._database = database
        self._locks = locks and database is not None and sys.platform != "win32"
        self._name: str | None = None
        self._descriptor: int | None = None

    def claim(self) -> str:
        """This owner's name; the first call takes the lock that keeps it alive."""
        if self._name is None:
            name = self._lock_own_file() if self._locks else None
            self._name = name or f"lease_{ULID()}"
        return self._name

    def is_alive(self, name: str, last_seen: float) -> bool:
        """Whether the owner of that name still runs; `last_seen`: its response's heartbeat."""
        if name == self._name:
            return True
        kind, _, token = name.partition("_")
        if kind == "lease":
            return abs(time.time() - last_seen) < LEASE_SECONDS
        return self._database is not None and _is_locked(self._file(token))

    def sweep(self) -> None:
        """Remove the files that killed processes left behind."""
        if self._database is None or not self._locks:
            return
        for path in self._database.parent.iterdir():
            if path.name.startswith(self._file("").name) and not _is_locked(path):
                path.unlink(missing_ok=True)

    def release(self) -> None:
        """Give up the claim: from here on the others take this owner for dead."""
        descriptor, name = self._descriptor, self._name
        self._descriptor = self._name = None
        if descriptor is not None:
            assert name is not None, "a locked file has a named owner"
            try:
                self._file(name.partition("_")[2]).unlink(missing_ok=True)
            finally:
                os.close(descriptor)

    def _file(self, token: str) -> Path:
        assert self._database is not None, "a database in memory has no file"
        return self._database.with_name(f"{self._database.name}-owner-{token}")

    def _lock_own_file(self) -> str | None:
        """The name under which a new file is locked; None where the file system has no flock."""
        while True:
            token = str(ULID())
            path = self._file(token)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _lock(descriptor)
                # A sweep that came between open and lock has unlinked what we hold.
                kept = path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor))
            except OSError as error:
                os.close(descriptor)
                path.unlink(missing_ok=True)
                if error.errno in (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL):
                    return None
                raise
            if kept:
                self._descriptor = descriptor
                return f"flock_{token}"
            os.close(descriptor)


def _is_locked(path: Path) -> bool:
    """Whether a process holds the file; one that is gone is held by nobody."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock_shared(descriptor)
    finally:
        os.close(descriptor)


if sys.platform == "win32":  # never called: `locks` is False there

    def _lock(descriptor: int) -> None:
        raise OSError(errno.ENOTSUP, "no flock")

    def _try_lock_shared(descriptor: int) -> bool:
        raise OSError(errno.ENOTSUP, "no flock")

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        """Wait for the exclusive lock: only a sweep's momentary shared one can be in the way."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _try_lock_shared(descriptor: int) -> bool:
        """Shared, so that two processes that look at a dead owner at once both see it dead."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
