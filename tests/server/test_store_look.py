"""A look at the store's file: what it says, and that nothing changes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from radixchat.engine.errors import StoreError
from radixchat.server.migrations import SCHEMA_VERSION
from radixchat.server.store import Store
from radixchat.server.store_look import StoreLook, look
from radixchat.tests.server.turns import ME, change, say


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """One conversation, in a folder of its own and with a name that a URI would read otherwise."""
    path = tmp_path / "50% folder" / "what?.db"
    with Store(path) as store:
        say(store, store.create_conversation(principal=ME))
    return path


def test_a_sound_file(path: Path) -> None:
    """Its version and how much is in it; no byte and no file beside it is another afterwards."""
    before = {p.name: p.read_bytes() for p in path.parent.iterdir()}
    path.parent.chmod(0o500)
    try:
        assert look(path, verifies=True) == StoreLook(SCHEMA_VERSION, SCHEMA_VERSION, 1, ())
        assert look(path, verifies=False).problems is None
    finally:
        path.parent.chmod(0o700)
    assert {p.name: p.read_bytes() for p in path.parent.iterdir()} == before


def test_a_file_in_use(path: Path) -> None:
    """What another process has written last is seen."""
    with Store(path) as store:
        store.create_conversation(principal=ME)
        assert look(path, verifies=True).conversations == 2


def test_what_is_wrong(path: Path) -> None:
    """In the sentences of `sessions verify`."""
    change(path, "UPDATE message SET text = 'other' WHERE role = 'user'")
    problems = look(path, verifies=True).problems
    assert problems is not None
    assert any("does not match its content" in problem for problem in problems)


def test_another_version(path: Path) -> None:
    """A newer file is not judged by rules that it may not know."""
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    assert look(path, verifies=True) == StoreLook(SCHEMA_VERSION + 1, SCHEMA_VERSION, 1, None)


@pytest.mark.parametrize("content", [b"not a database, but long enough to be looked at", b""])
def test_no_database_of_ours(tmp_path: Path, content: bytes) -> None:
    """The path is in the error."""
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=str(path)):
        look(path, verifies=True)
    with pytest.raises(StoreError, match="none"):
        look(tmp_path / "none.db", verifies=True)
    assert [p.name for p in tmp_path.iterdir()] == ["x.db"]
