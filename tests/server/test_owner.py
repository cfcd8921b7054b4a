"""Who is alive: locked files, files left behind, and leases where there are no locks."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from radixchat.server.owner import LEASE_SECONDS, Owner


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "a [b]*.db"  # what a glob would take for a pattern


@pytest.fixture
def owner(database: Path) -> Iterator[Owner]:
    owner = Owner(database)
    yield owner
    owner.release()


def files(database: Path) -> list[str]:
    return sorted(path.name for path in database.parent.iterdir())


def test_claim_is_kept(owner: Owner, database: Path) -> None:
    """A claim is made once, is one file that only its user can read, and goes with a release."""
    name = owner.claim()
    assert owner.claim() == name
    (file,) = database.parent.iterdir()
    assert file.name == f"{database.name}-owner-{name.removeprefix('flock_')}"
    assert file.stat().st_mode & 0o777 == 0o600
    owner.release()
    assert files(database) == []
    owner.release()


def test_nothing_is_written_without_a_claim(owner: Owner, database: Path) -> None:
    """Looking at others leaves no file."""
    assert not owner.is_alive("flock_NONE", time.time())
    owner.sweep()
    assert files(database) == []


def test_owners_see_each_other(owner: Owner, database: Path) -> None:
    """An owner is alive to itself and to others, however old its heartbeat, until it ends."""
    name, other = owner.claim(), Owner(database)
    assert owner.is_alive(name, last_seen=0.0)
    assert other.is_alive(name, last_seen=0.0)
    owner.release()
    assert not other.is_alive(name, last_seen=time.time())
    assert not owner.is_alive(name, last_seen=time.time())


def test_looking_twice_at_once_disturbs_nobody(owner: Owner, database: Path) -> None:
    """A look does not end a claim, and many looks agree that an owner is dead."""
    name = owner.claim()
    (file,) = database.parent.iterdir()
    others = [Owner(database) for _ in range(3)]
    assert all(other.is_alive(name, 0.0) for other in others)
    owner.release()
    with file.open("w") as left_behind:  # as by a killed process, with another looking at it
        fcntl.flock(left_behind, fcntl.LOCK_SH)
        assert not any(other.is_alive(name, 0.0) for other in others)


def test_sweep_takes_only_what_is_left_behind(owner: Owner, database: Path) -> None:
    """A sweep removes a dead owner's file, and neither a live one's nor another database's."""
    owner.claim()
    alive = files(database)
    database.with_name(f"{database.name}-owner-DEAD").touch()
    database.with_name("other.db-owner-DEAD").touch()
    database.with_name(f"{database.name}-wal").touch()
    Owner(database).sweep()
    assert files(database) == sorted([*alive, "other.db-owner-DEAD", f"{database.name}-wal"])


def test_sweeps_never_take_the_file_of_a_live_owner(database: Path) -> None:
    """However a sweep falls into a claim: once it is made it holds until it is released."""
    stop = threading.Event()

    def sweep() -> None:
        other = Owner(database)
        while not stop.is_set():
            other.sweep()

    sweepers = [threading.Thread(target=sweep) for _ in range(2)]
    for sweeper in sweepers:
        sweeper.start()
    try:
        for _ in range(300):
            owner = Owner(database)
            name = owner.claim()
            time.sleep(0.0002)
            assert Owner(database).is_alive(name, last_seen=0.0)
            owner.release()
    finally:
        stop.set()
        for sweeper in sweepers:
            sweeper.join()
    assert files(database) == []


def no_locks_available(descriptor: int, operation: int) -> None:
    """What flock does on a network file system without locks."""
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@pytest.mark.parametrize("in_memory", [True, False])
def test_lease(database: Path, in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without locks an owner lives as long as its heartbeat is young; nothing is written."""
    monkeypatch.setattr(fcntl, "flock", no_locks_available)
    owner = Owner(None if in_memory else database)
    name, other = owner.claim(), Owner(database)
    assert name.startswith("lease_")
    assert owner.is_alive(name, last_seen=0.0)
    assert other.is_alive(name, last_seen=time.time() - LEASE_SECONDS / 2)
    assert not other.is_alive(name, last_seen=time.time() - LEASE_SECONDS - 1)
    owner.sweep()
    owner.release()
    assert files(database) == []
