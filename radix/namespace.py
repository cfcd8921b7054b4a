"""Namespaces: each tenant's prefixes hang below a root of its own.

A namespace is bytes that only the server can make: an HMAC, so that nobody who chooses one of
its parts (a user's name, a salt) can meet another's. Whoever derives it names everything that
changes K/V: principal, model and weights revision, dtype, rope, adapter, K/V format.
"""

from __future__ import annotations

import hmac

MIN_SECRET_BYTES = 16


def derive_namespace(secret: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 over the parts, each preceded by its length: ("ab", "c") is not ("a", "bc").

    Returns 32 bytes. Raises ValueError when the secret could be guessed by its length.
    """
    if len(secret) < MIN_SECRET_BYTES:
        raise ValueError(
            f"the secret has {len(secret)} bytes; it must have at least {MIN_SECRET_BYTES}"
        )
    digest = hmac.new(secret, digestmod="sha256")
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
