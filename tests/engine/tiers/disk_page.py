"""Pages that any process can make again, and know for right or wrong."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from radixchat.engine.tiers.disk_store import DiskStore
from radixchat.engine.tiers.page_store import StoredPage

PAGE = 10_000  # bytes; three blocks of 4,096
MIB = 1 << 20
FINGERPRINT = {"model": "tiny", "dtype": "float32"}


def digest(number: int) -> bytes:
    return blake2b(number.to_bytes(8, "little"), digest_size=16).digest()


def body(number: int, size: int = PAGE) -> bytes:
    return np.random.Generator(np.random.PCG64(number)).bytes(size)


def page(number: int, namespace: bytes = b"a", size: int = PAGE) -> StoredPage:
    return StoredPage(digest(number), namespace, memoryview(body(number, size)))


def pages(*numbers: int) -> list[StoredPage]:
    return [page(number) for number in numbers]


def make(folder: Path, quota: int = 64 * MIB, **changes: Any) -> DiskStore:
    values: dict[str, Any] = {"fingerprint": FINGERPRINT, "page_bytes": PAGE} | changes
    return DiskStore(folder, quota_bytes=quota, **values)


def got(store: DiskStore, *numbers: int) -> int:
    """How many of the first pages it has; those are right."""
    rows = [memoryview(bytearray(store.page_bytes)) for _ in numbers]
    count = store.get([digest(number) for number in numbers], rows)
    for number, row in zip(numbers[:count], rows, strict=False):
        assert row == body(number, store.page_bytes), f"page {number} is not what was written"
    return count


def has(store: DiskStore, numbers: range) -> list[int]:
    """Which of them it has, each asked for alone."""
    return [number for number in numbers if got(store, number)]


def size(store: DiskStore) -> int:
    """How many pages it has."""
    return len(list(store.known()))
