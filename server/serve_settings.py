"""How a server is reached and how it leaves: a frozen value, checked when it is made.

Standard library only. Knows no command line, no model and no socket.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from radixchat.engine.errors import ConfigError
from radixchat.server.limits import Limits

AUTH_MODES = ("header", "message")
LOG_FORMATS = ("text", "json")
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000
_MAX_PORT = 65535
ANY = "*"
_OPAQUE = "null"  # what browsers call the origin of a file, or of a page in a sandbox


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The settings of one server's edge.

    host, port: where it listens; port 0 is any that is free. insecure: may listen beyond this
    machine without a key. allow_hosts: names in a request's Host besides the machine's own ("*":
    any). allow_origins: web pages' origins besides the server's own ("*": any). tls_cert, tls_key:
    PEM files, both or none. auth_mode: "header" wants a key in the handshake, "message" also takes
    it as a WebSocket's first message. drain_timeout_s: how long running answers may go on when the
    server is told to leave. disconnect_grace_s: how long an answer goes on that nobody reads; 0
    cancels it at once, -1 never. strict: fields of a request that are not known are refused.
    log_format: one of LOG_FORMATS. limits: what clients may ask for.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    insecure: bool = False
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    auth_mode: str = "header"
    drain_timeout_s: float = 30.0
    disconnect_grace_s: float = 30.0
    strict: bool = False
    log_format: str = "text"
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= _MAX_PORT:
            raise ConfigError(f"port is {self.port}; it must be 0 to {_MAX_PORT}")
        if not self.host:
            raise ConfigError("host is empty; 127.0.0.1 is this machine, 0.0.0.0 every address")
        for origin in self.allow_origins:
            _check_origin(origin)
        if (self.tls_cert is None) != (self.tls_key is None):
            given, missing = (
                ("tls_cert", "tls_key") if self.tls_key is None else ("tls_key", "tls_cert")
            )
            raise ConfigError(f"{given} is given without {missing}; TLS needs both")
        if self.auth_mode not in AUTH_MODES:
            raise ConfigError(
                f"auth_mode is {self.auth_mode!r}; it must be one of {', '.join(AUTH_MODES)}"
            )
        if self.log_format not in LOG_FORMATS:
            raise ConfigError(
                f"log_format is {self.log_format!r}; it must be one of {', '.join(LOG_FORMATS)}"
            )
        if not (self.drain_timeout_s >= 0 and math.isfinite(self.drain_timeout_s)):
            raise ConfigError(f"drain_timeout_s is {self.drain_timeout_s}; it must be 0 or more")
        grace = self.disconnect_grace_s
        if not (grace == -1 or (grace >= 0 and math.isfinite(grace))):
            raise ConfigError(f"disconnect_grace_s is {grace}; it must be 0 or more, or -1")

    @property
    def scheme(self) -> str:
        """Of the server's addresses: "http" or "https"."""
        return "http" if self.tls_cert is None else "https"


def _check_origin(origin: str) -> None:
    """Raise ConfigError of what no browser would send as an Origin."""
    if origin in (ANY, _OPAQUE):
        return
    try:
        parts = urlsplit(origin)
        # Before a colon there is a scheme, or a name that has a port after it.
        named = urlsplit(f"https://{origin}" if "://" not in origin else origin)
        own, host, _ = f"{parts.scheme}://{parts.netloc}", named.hostname, named.port
    except ValueError:
        own, named, host = "", urlsplit(""), None
    if host and origin.rstrip("/") == own and "@" not in own:
        return
    port = f":{named.port}" if host and named.port else ""
    scheme = named.scheme or "https"
    would_do = f"{scheme}://{host}{port}" if host else "https://example.org"
    raise ConfigError(
        f"allow_origin is {origin!r}, which is no web page's origin: a scheme, a host and perhaps "
        f"a port, such as {would_do}"
    )
