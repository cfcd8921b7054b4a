"""Which process is answering, and whether it still lives.

A response in progress belongs to the process that computes it. When that process is killed,
whoever comes next may take the response over, at once; while it lives, nobody may.

A process proves that it lives by an exclusive `flock` on a file of its own beside the database:
the kernel drops it the moment the process ends, however it ends. A process id proves less: it
is reused, and in every container it is 1. A heartbeat proves it only by waiting until the beat
is late, and takes a stopped process (Ctrl-Z, a laptop asleep) for a dead one. `fcntl.lockf`
locks would go when *any* descriptor of the file is closed in the process; a flock belongs to
one open file, so that two owners in one process do not disturb each other. (A forked child would
keep it; nothing here forks, and `exec` closes the file.) Where there is no flock (some network
file systems) the heartbeat has to do: the name says which.

    sessions.db-owner-01K…     owner "flock_01K…": lives while that file is locked
    (no file)                  owner "lease_01K…": lives while its response's heartbeat is young

Whoever removes a file that a killed process left behind holds its lock while it does, and whoever
locks a file of its own looks afterwards whether it still has its name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ulid import ULID

# Twenty missed heartbeats (one each 0.5 s): more than a long step of the engine takes.
LEASE_SECONDS = 10.0

_NO_FLOCK = (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)


class Owner:
    """This process' claim to its responses, and its view of the others'.

    database: the path of the file; None for one in memory, which no other process can see.
    Raises OSError where the folder cannot be read or written.
    """

    def __init__(self, database: Path | None) -> None:
        self._database = database
        self._name: str | None = None
        self._descriptor: int | None = None

    def claim(self) -> str:
        """This owner's name; the first call takes the lock that keeps it alive."""
        if self._name is None:
            name = None if self._database is None else self._lock_own_file()
            self._name = name or f"lease_{ULID()}"
        return self._name

    def is_alive(self, name: str, last_seen: float) -> bool:
        """Whether the owner of that name still runs; `last_seen`: its response's heartbeat."""
        if name == self._name:
            return True
        kind, _, token = name.partition("_")
        if kind == "lease":
            return abs(time.time() - last_seen) < LEASE_SECONDS
        if self._database is None:
            return False
        with _unless_locked(self._file(token)) as dead:
            return not dead

    def sweep(self) -> None:
        """Remove the files that killed processes left behind."""
        if self._database is None:
            return
        for path in self._database.parent.iterdir():
            if path.name.startswith(self._file("").name):
                with _unless_locked(path) as dead:
                    if dead:
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
                # Waits only for somebody who looks at the file, or sweeps it, at this moment.
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                kept = _has_name(descriptor, path)
            except OSError as error:
                os.close(descriptor)
                path.unlink(missing_ok=True)
                if error.errno in _NO_FLOCK:
                    return None
                raise
            if kept:
                self._descriptor = descriptor
                return f"flock_{token}"
            os.close(descriptor)


def _has_name(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at that path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@contextmanager
def _unless_locked(path: Path) -> Iterator[bool]:
    """Whether nobody holds the file; if so, nobody can take hold of it within the block.

    The lock is shared, so that two processes that look at a dead owner at once both see it dead.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
