"""The keys by which a server knows its clients. A key is told once; only its digest is kept.

Knows the table and how a key looks; not how one is sent, nor what its principal may do.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from typing import Any

from ulid import ULID

from radixchat.engine.errors import InvalidRequest
from radixchat.server.message import check_text
from radixchat.server.rows import select
from radixchat.server.store_file import StoreFile

PREFIX = "rc_"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of a key. revoked_at: None while it is good. Seconds since the epoch.

    principal: whose conversations it opens; its own id, unless it was made for another key's.
    is_operator: whether it also opens what concerns everybody.
    """

    id: str
    name: str
    principal: str
    is_operator: bool
    created_at: float
    revoked_at: float | None


class KeyStore:
    """The keys in a file. Every method may raise StoreError."""

    def __init__(self, file: StoreFile) -> None:
        self._file = file

    def add(self, name: str, *, principal: str | None = None, is_operator: bool = False) -> str:
        """A new key, which nobody can be told again.

        principal: another key's, to replace that; None: somebody new. Raises InvalidRequest for a
        name that is empty or in use, and for a principal that no key has.
        """
        if not check_text("the name", name).strip():
            raise InvalidRequest("a key needs a name, to be told from the others")
        key, id_ = PREFIX + secrets.token_urlsafe(32), f"key_{ULID()}"
        row = {
            "id": id_,
            "name": name,
            "principal": principal or id_,
            "digest": _digest(key),
            "is_operator": is_operator,
            "created_at": time.time(),
        }
        with self._file.writing() as db:
            taken = "SELECT 1 FROM api_key WHERE name = :name AND revoked_at IS NULL"
            if select(db, taken, name=name):
                raise InvalidRequest(f"there is a key named {name!r} already; revoke that first")
            known = "SELECT 1 FROM api_key WHERE principal = :principal"
            if principal is not None and not select(db, known, principal=principal):
                raise InvalidRequest(f"no key has the principal {principal!r}")
            db.table("api_key").insert(row)
        return key

    def list(self) -> list[ApiKey]:
        """All keys, the oldest first, the revoked ones too."""
        with self._file.reading() as db:
            return [_api_key(row) for row in select(db, f"{_KEYS} ORDER BY rowid")]

    def revoke(self, name_or_id: str) -> ApiKey:
        """Take a key back, by its name or its id; what it opened stays where it is.

        Raises InvalidRequest where no good key is called so.
        """
        good = f"{_KEYS} WHERE :name IN (id, name) AND revoked_at IS NULL"
        with self._file.writing() as db:
            found = select(db, good, name=name_or_id)
            if not found:
                raise InvalidRequest(f"there is no key {name_or_id!r} that could be revoked")
            revoked = {"revoked_at": time.time()}
            db.table("api_key").update(found[0]["id"], revoked)
        return _api_key(found[0] | revoked)

    def find(self, key: str) -> str | None:
        """Whose that key is; None of one that is unknown or revoked."""
        found = self.identify(key)
        return None if found is None else found.principal

    def identify(self, key: str) -> ApiKey | None:
        """What is known of that key; None of one that is unknown or revoked.

        The index is asked for the digest of 256 random bits: how long that takes says nothing of
        any other key.
        """
        if not key.startswith(PREFIX):
            return None
        digest = _digest(key)
        good = "SELECT * FROM api_key WHERE digest = :digest AND revoked_at IS NULL"
        with self._file.reading() as db:
            for row in select(db, good, digest=digest):
                if hmac.compare_digest(row.pop("digest"), digest):
                    return _api_key(row)
        return None


_KEYS = "SELECT id, name, principal, is_operator, created_at, revoked_at FROM api_key"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()


def _api_key(row: dict[str, Any]) -> ApiKey:
    return ApiKey(**{**row, "is_operator": bool(row["is_operator"])})
