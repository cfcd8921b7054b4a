"""API keys: told once, kept as digests, taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixchat.engine.errors import InvalidRequest
from radixchat.server.store import Store


def test_a_key_opens_its_own_principal(store: Store) -> None:
    """The same after a restart; another one another."""
    key, other = store.keys.add("laptop"), store.keys.add("phone")
    assert key.startswith("rc_")
    assert len(key) == 46
    first, second = store.keys.list()
    assert (first.name, second.name) == ("laptop", "phone")
    assert first.principal == first.id != second.principal
    with Store(store._file.path) as again:
        assert again.keys.find(key) == first.principal
        assert again.keys.find(other) == second.principal


def test_a_key_is_nowhere_in_the_file(store: Store, path: Path) -> None:
    """Only its digest is."""
    key = store.keys.add("laptop")
    for file in path.parent.iterdir():
        assert key.removeprefix("rc_").encode() not in file.read_bytes()


def test_a_revoked_key_opens_nothing(store: Store) -> None:
    """Taken back by name or id, once; its name is free again, the old row stays."""
    key = store.keys.add("laptop")
    revoked = store.keys.revoke("laptop")
    assert revoked.revoked_at is not None
    assert store.keys.find(key) is None
    assert store.keys.identify(key) is None
    with pytest.raises(InvalidRequest, match="no key 'laptop'"):
        store.keys.revoke("laptop")
    store.keys.add("laptop")
    old, new = store.keys.list()
    assert (old.revoked_at, new.revoked_at) == (revoked.revoked_at, None)
    assert store.keys.revoke(new.id).id == new.id


def test_a_key_for_an_old_one(store: Store) -> None:
    """Whoever changes a key keeps the conversations."""
    old = store.keys.add("laptop", is_operator=True)
    (first,) = store.keys.list()
    assert first.is_operator
    store.keys.revoke("laptop")
    new = store.keys.add("laptop 2", principal=first.principal)
    assert store.keys.find(old) is None
    found = store.keys.identify(new)
    assert found is not None
    assert (found.principal, found.is_operator) == (first.principal, False)


@pytest.mark.parametrize("name", ["", " \n", "\ud800"])
def test_names_that_are_refused(store: Store, name: str) -> None:
    """A key without a name could not be told from another."""
    with pytest.raises(InvalidRequest):
        store.keys.add(name)
    assert store.keys.list() == []


def test_other_refusals(store: Store) -> None:
    """A name in use, a principal that nobody has."""
    store.keys.add("laptop")
    with pytest.raises(InvalidRequest, match="named 'laptop' already"):
        store.keys.add("laptop")
    with pytest.raises(InvalidRequest, match="no key has the principal 'local'"):
        store.keys.add("phone", principal="local")


@pytest.mark.parametrize("key", ["", "rc_", "rc_" + "a" * 43, "a" * 46, "rc_\ud800", "rc_\0"])
def test_what_is_no_key(store: Store, key: str) -> None:
    """It is nobody's."""
    store.keys.add("laptop")
    assert store.keys.find(key) is None
