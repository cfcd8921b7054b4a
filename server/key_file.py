"""The keys of a database, whoever serves from it at the moment. Knows no host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from radixchat.server.key_store import ApiKey, KeyStore
from radixchat.server.store_file import StoreFile


@contextlib.contextmanager
def open_keys(database: Path) -> Iterator[KeyStore]:
    """The key store of a database, which is made if it is not there. Raises StoreError."""
    file = StoreFile(database)
    try:
        yield KeyStore(file)
    finally:
        file.close()


def find_keys(database: Path) -> list[ApiKey]:
    """All keys, of a file that may not be there yet. Raises StoreError."""
    if not database.exists():
        return []
    with open_keys(database) as keys:
        return keys.list()
