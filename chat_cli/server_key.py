"""A server's key as a request can carry it. Never quotes one: what it complains of is its form."""

from __future__ import annotations

from radixchat.server.protocol import ConfigError


def usable_key(key: str | None, given_as: str = "the key") -> str | None:
    """The key without the white space around it, such as the end of its line; None: there is none.

    given_as: what to call it. Raises ConfigError: it has a character that no header can carry, or
    that ends it.
    """
    key = (key or "").strip()
    if not all("!" <= character <= "~" for character in key):
        raise ConfigError(f"{given_as} has a character that no key has")
    return key or None
