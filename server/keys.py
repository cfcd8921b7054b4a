"""Keys at the edge: whether one is needed, and who each is, asked of the key store.

Owns the rule of when a server may be open. Knows no hash and no table.
"""

from __future__ import annotations

from collections.abc import Sequence

from radixchat.engine.errors import ConfigError
from radixchat.server.auth import Authenticator, Principal
from radixchat.server.host import ChatHost
from radixchat.server.key_store import ApiKey
from radixchat.server.listener import is_local
from radixchat.server.serve_settings import ServeSettings


def authenticator(host: ChatHost, settings: ServeSettings) -> Authenticator:
    """Who asks the host's key store."""

    async def find(key: str) -> Principal | None:
        found = await host.database(host.store.keys.identify, key)
        return None if found is None else Principal(found.principal, found.is_operator)

    async def any_key() -> bool:
        # The revoked ones too: taking a key back must not let in those who never had one.
        return bool(await host.database(host.store.keys.list))

    return Authenticator(
        find,
        any_key,
        is_open=may_be_open(settings),
        look_seconds=settings.limits.key_seconds,
    )


def may_be_open(settings: ServeSettings) -> bool:
    """Whether a server without any key lets everybody in."""
    return settings.insecure or is_local(settings)


def require_key(settings: ServeSettings, keys: Sequence[ApiKey]) -> None:
    """Raise ConfigError where others reach the server, and there is no key to tell them apart."""
    is_any_good = any(key.revoked_at is None for key in keys)
    if not is_any_good and not may_be_open(settings):
        raise ConfigError(
            f"host is {settings.host}, which other machines reach, and there is no key: make one "
            "with `radixchat keys add NAME`, or let everybody in with --insecure"
        )
