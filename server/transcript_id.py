"""Which id a conversation gets that comes from elsewhere: the same one for the same principal."""

from __future__ import annotations

import hashlib

from sqlite_utils import Database
from ulid import ULID

from radixchat.server.rows import select


def import_id(db: Database, principal: str, foreign: str) -> tuple[str, bool]:
    """The id, and whether the principal has that conversation already.

    It is the foreign one, as far as that is a ULID with or without "conv_" before it and nobody
    else's conversation is called so. Nothing tells whose that is.
    """
    made = f"conv_{_ulid(foreign) or _hashed(foreign)}"
    sql = "SELECT principal FROM conversation WHERE id = :id"
    owners = [row["principal"] for row in select(db, sql, id=made)]
    if not owners or owners == [principal]:
        return made, bool(owners)
    made = f"conv_{_hashed(principal, foreign)}"
    return made, bool(select(db, sql, id=made))


def _ulid(foreign: str) -> ULID | None:
    try:
        return ULID.from_str(foreign.removeprefix("conv_").upper())
    except ValueError:
        return None


def _hashed(*parts: str) -> ULID:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return ULID(digest.digest())
