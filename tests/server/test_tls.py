"""TLS: a certificate and its key, and a server that speaks it."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest

from radixchat.engine.errors import ConfigError
from radixchat.server.listener import Listener, bind, url_of
from radixchat.server.serve_settings import ServeSettings
from radixchat.server.tls import exposed_key, tls_context
from radixchat.tests.server.test_http_protocol import app

OPENSSL = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")


def make_certificate(folder: Path, *options: str) -> tuple[Path, Path]:
    """A certificate of localhost and its key, made by openssl."""
    folder.mkdir()
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = [*OPENSSL, *(options or ("-nodes",)), "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    return certificate, key


def test_a_server_speaks_tls(tmp_path: Path) -> None:
    """With both files the listener is https, and a client that trusts them gets its answer."""
    certificate, key = make_certificate(tmp_path / "a")
    settings = ServeSettings(port=0, tls_cert=certificate, tls_key=key)
    client = ssl.create_default_context(cafile=certificate)

    async def main() -> tuple[str, bytes]:
        sockets = bind(settings)
        url, port = url_of(settings, sockets), sockets[0].getsockname()[1]
        listener = Listener(app, settings, sockets)
        await listener.start()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
            writer.write(b"GET /where HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return url, answer
        finally:
            await listener.stop()

    url, answer = asyncio.run(main())
    assert url.startswith("https://127.0.0.1:")
    assert answer.endswith(b"/where 0")


def test_without_files_there_is_no_tls() -> None:
    """What was not asked for is not done."""
    assert tls_context(ServeSettings()) is None
    assert exposed_key(ServeSettings()) is None


def test_what_does_not_make_tls_is_told(tmp_path: Path) -> None:
    """Files that are missing, swapped, of two certificates, or encrypted: each says so."""
    certificate, key = make_certificate(tmp_path / "a")
    _, other = make_certificate(tmp_path / "b")
    encrypted = make_certificate(tmp_path / "c", "-passout", "pass:secret")

    def refusal(cert: Path, private: Path) -> str:
        with pytest.raises(ConfigError) as refused:
            tls_context(ServeSettings(tls_cert=cert, tls_key=private))
        return str(refused.value)

    missing = tmp_path / "missing.pem"
    assert f"tls_cert is {missing}" in refusal(missing, key)
    assert f"tls_key is {missing}" in refusal(certificate, missing)
    assert "do not make TLS together" in refusal(key, certificate)
    assert "do not make TLS together" in refusal(certificate, other)
    assert "openssl pkey" in refusal(*encrypted)


def test_a_key_that_others_may_read_is_told(tmp_path: Path) -> None:
    """A private key is for its owner only."""
    certificate, key = make_certificate(tmp_path / "a")
    settings = ServeSettings(tls_cert=certificate, tls_key=key)
    key.chmod(0o600)
    assert exposed_key(settings) is None
    key.chmod(0o640)
    assert exposed_key(settings) == key
