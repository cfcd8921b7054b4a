"""Deletes a conversation's pages of every kind in a folder, without the engine that wrote them.

What is deleted may have been computed by a model that is not loaded now, or by none that this
process ever loads. Needs no torch and no key. Knows no conversation: tokens, and whose they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from radixchat.engine.errors import StoreError
from radixchat.engine.tiers.disk_administration import disk_folders
from radixchat.engine.tiers.disk_store import DiskStore
from radixchat.radix.namespace import derive_namespace
from radixchat.radix.tiers import page_digests

_PURPOSE = {"purpose": "to delete"}
_STILL_THERE = (
    "cannot delete from {0} what was computed of it ({1}); `radixchat cache clear` deletes all"
)
_PAGE_BYTES, _QUOTA_BYTES = 1, 1 << 50  # nothing is written


@dataclass(frozen=True, slots=True)
class StoredPath:
    """Tokens of a path; those before `start` stay."""

    token_ids: Sequence[int]
    start: int


def namespace_key_id(secret: bytes) -> str:
    """Names the secret that roots are derived with, and tells nothing of it."""
    return hashlib.blake2b(secret, digest_size=8, person=b"radixchat kv").hexdigest()


def principal_namespace(secret: bytes, model: str, arithmetic: str, principal: str) -> bytes:
    """The root of one principal's K/V: nobody else's is there, and no other model's.

    secret: at least 16 bytes that no principal knows.
    """
    return derive_namespace(secret, *(part.encode() for part in (model, arithmetic, principal)))


def forget_on_disk(folder: Path, secret: bytes, principal: str, paths: Sequence[StoredPath]) -> int:
    """Delete a principal's pages of paths, of all models; how many there were.

    Raises StoreError: the folder is not one of ours, or cannot be used: the pages are still there.
    """
    if not paths:
        return 0
    found, mine = disk_folders(folder), namespace_key_id(secret)
    if found.problem is not None:
        raise StoreError(_STILL_THERE.format(folder, found.problem))
    kinds = [kind.fields for kind in found.kinds if kind.fields.get("namespaces") == mine]
    digests = list(_digests(kinds, secret, principal, paths))
    if not digests:
        return 0
    store = DiskStore(folder, _PURPOSE, _PAGE_BYTES, _QUOTA_BYTES)
    try:
        count = store.delete(digests)
    finally:
        store.close()
    problem = store.problem
    if problem is None and store.stats().misses.get("busy"):
        problem = "another process does not let go of it"
    if problem is not None:
        raise StoreError(_STILL_THERE.format(folder, problem))
    return count


def _digests(
    kinds: Iterable[Mapping[str, str]], secret: bytes, principal: str, paths: Sequence[StoredPath]
) -> Iterator[bytes]:
    for kind in kinds:
        size = int(kind["page_size"])
        namespace = principal_namespace(secret, kind["model"], kind["arithmetic"], principal)
        for path in paths:
            tokens = np.asarray(path.token_ids, np.int32).tobytes()
            yield from list(page_digests(namespace, tokens, size))[path.start // size :]
