"""`ServerAddress`: where a server is, from what a user calls it.

Knows no connection. An address never holds a key: one that does is refused, without being quoted.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from radixchat.server.protocol import ConfigError

_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_PATH = "/v1/responses"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """shown: for people. socket: its WebSocket. is_local: nobody else can listen on the way."""

    shown: str
    socket: str
    is_local: bool

    @property
    def is_encrypted(self) -> bool:
        """TLS, with a certificate that is checked."""
        return self.socket.startswith("wss:")

    @classmethod
    def parse(cls, url: str) -> ServerAddress:
        """Of `ws://HOST:PORT`, `https://HOST/v1` and the like. Raises ConfigError."""
        if "@" in url:
            raise ConfigError("the server's URL has a user or a key in it: give it as --key")
        if "?" in url or "#" in url:  # where other servers take keys: it is not quoted
            raise ConfigError("the server's URL ends with its path: no ? and no # after it")
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port  # a port that is no number raises
        except ValueError as error:
            raise ConfigError(f"the server's URL is not valid: {error}") from error
        if parts.scheme not in _SCHEMES or not host:
            message = f"the server's URL is {url!r}; it has to be ws://, wss://, http:// or"
            raise ConfigError(f"{message} https://, and a host: ws://127.0.0.1:8000")
        path = parts.path.rstrip("/").removesuffix(_PATH).removesuffix("/v1")
        return cls(
            shown=f"{parts.scheme}://{parts.netloc}{path}",
            socket=f"{_SCHEMES[parts.scheme]}://{parts.netloc}{path}{_PATH}",
            is_local=_is_local(host),
        )


def shown_url(url: str) -> str:
    """A server's URL for people. Raises ConfigError."""
    return ServerAddress.parse(url).shown


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
