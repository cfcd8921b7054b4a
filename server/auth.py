"""Who somebody is: a key becomes a principal. Owns where a key may stand, and when one is needed.

Knows no connection and no table: the key store compares hashes, in constant time. A key is never
logged and never sent back.

    no key was ever made      everybody is "local": whoever reaches this machine's own address
    there was one             a valid key, or nobody; also when the last one was revoked
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from radixchat.engine.errors import RadixChatError

LOCAL = "local"
SUBPROTOCOL = "radixchat.v1"
_BEARER_SUBPROTOCOL = "radixchat.bearer."
# Longer than any key of ours; what is longer is not hashed.
_MAX_KEY_LENGTH = 512


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever asks.

    id: whose conversations and cached tokens they see. is_operator: may see what concerns
    everybody, such as metrics, and tell the server to drain.
    """

    id: str
    is_operator: bool = False


Find = Callable[[str], Awaitable[Principal | None]]


class Authenticator:
    """Turns keys into principals.

    find: the principal of a key, if there is one. any_key: whether any was ever made. is_open:
    without any, everybody is "local"; a server that strangers reach is not, unless its operator
    said so. look_seconds: how often `withdrawn` looks.
    """

    def __init__(
        self,
        find: Find,
        any_key: Callable[[], Awaitable[bool]],
        *,
        is_open: bool,
        look_seconds: float = 10.0,
    ) -> None:
        self._find = find
        self._any_key = any_key
        self._is_open = is_open
        self._look_seconds = look_seconds

    async def principal(self, key: str | None) -> Principal | None:
        """Who has this key; None: nobody may come in with it.

        An SDK sends some key even where none is needed: that is no reason to refuse it.
        """
        if key is not None and 0 < len(key) <= _MAX_KEY_LENGTH:
            found = await self._find(key)
            if found is not None:
                return found
        return None if await self.needs_key() else Principal(LOCAL, is_operator=True)

    async def withdrawn(self, key: str | None, principal: str) -> None:
        """Return when the key does not make a principal of whoever has it any more."""
        while True:
            await asyncio.sleep(self._look_seconds)
            with contextlib.suppress(RadixChatError):  # a database that is busy withdraws nothing
                found = await self.principal(key)
                if found is None or found.id != principal:
                    return

    async def needs_key(self) -> bool:
        """Whether nobody comes in without one; once it is so, it stays so."""
        if self._is_open and await self._any_key():
            self._is_open = False
        return not self._is_open


def key_of(authorization: str | None, subprotocols: Iterable[str] = ()) -> str | None:
    """The key in an Authorization header, or else in the subprotocols of a WebSocket.

    A browser's WebSocket cannot have headers: it asks for "radixchat.bearer." and the key in
    base64url, too.
    """
    if authorization is not None:
        scheme, _, key = authorization.partition(" ")
        return key.strip() if scheme.lower() == "bearer" else None
    for name in subprotocols:
        if name.startswith(_BEARER_SUBPROTOCOL):
            return _decoded(name.removeprefix(_BEARER_SUBPROTOCOL))
    return None


def accepted_subprotocol(subprotocols: Iterable[str]) -> str | None:
    """What a WebSocket is accepted with: ours if it was asked for, never the one with the key."""
    return SUBPROTOCOL if SUBPROTOCOL in subprotocols else None


def _decoded(encoded: str) -> str | None:
    padded = encoded + "=" * (-len(encoded) % 4)
    try:
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
