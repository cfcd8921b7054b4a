"""TLS: a certificate and its key, read and held against each other. Knows no socket."""

from __future__ import annotations

import ssl
from pathlib import Path

from radixchat.engine.errors import ConfigError
from radixchat.server.serve_settings import ServeSettings

_OTHERS_MAY_READ = 0o077


def tls_context(settings: ServeSettings) -> ssl.SSLContext | None:
    """What a listener does TLS with; None: it does not.

    Raises ConfigError: a file that cannot be read, is not PEM, or a key of another certificate.
    """
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for name, path in (("tls_cert", settings.tls_cert), ("tls_key", settings.tls_key)):
        _require_readable(name, path)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(
            f"tls_cert is {settings.tls_cert} and tls_key is {settings.tls_key}, which do not make "
            f"TLS together: {error}"
        ) from error
    return context


def exposed_key(settings: ServeSettings) -> Path | None:
    """The private key's file, if others than its owner may read it."""
    path = settings.tls_key
    if path is None or not path.stat().st_mode & _OTHERS_MAY_READ:
        return None
    return path


def _require_readable(name: str, path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{name} is {path}, which cannot be read: {error.strerror}") from error


def _no_password() -> str:
    # openssl would ask on the terminal, and a server has none.
    raise ValueError("the key is encrypted; `openssl pkey -in KEY -out PLAIN` decrypts it")
