"""Where a server is, out of what it is called, and how long it is waited for."""

from __future__ import annotations

import pytest

from radixchat.chat_cli.backoff import Backoff
from radixchat.chat_cli.server_address import ServerAddress
from radixchat.server.protocol import ConfigError


@pytest.mark.parametrize(
    ("url", "socket", "shown", "local"),
    [
        ("ws://127.0.0.1:8000", "ws://127.0.0.1:8000", "ws://127.0.0.1:8000", True),
        ("http://localhost:80/", "ws://localhost:80", "http://localhost:80", True),
        ("https://chat.example/v1", "wss://chat.example", "https://chat.example", False),
        ("wss://x.example/a/v1/responses", "wss://x.example/a", "wss://x.example/a", False),
        ("HTTP://[::1]:80", "ws://[::1]:80", "http://[::1]:80", True),
    ],
)
def test_addresses(url: str, socket: str, shown: str, local: bool) -> None:
    """HTTP's and WebSocket's schemes, with the API's path or without, below a prefix or not."""
    address = ServerAddress.parse(url)
    assert address.socket == f"{socket}/v1/responses"
    assert (address.shown, address.is_local) == (shown, local)
    assert address.is_encrypted == socket.startswith("wss")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://x", "ws://", "ws://x:port", "ws://x?key=secret", "ws://[x"]
)
def test_no_addresses(url: str) -> None:
    """What cannot be reached is refused with what would do."""
    with pytest.raises(ConfigError, match="URL"):
        ServerAddress.parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "ws://user:rc_secret@host:1",
        "ws://user:rc_secret@host:port",
        "rc_secret@host:1",
        "ws://host:1/?key=rc_secret",
        "ws://host:port?key=rc_secret",
        "host:1#rc_secret",
    ],
)
def test_a_key_in_an_address_is_not_quoted(url: str) -> None:
    """It is refused, and the sentence does not have it."""
    with pytest.raises(ConfigError) as refused:
        ServerAddress.parse(url)
    assert "secret" not in str(refused.value)


def test_waits_double_up_to_their_bound() -> None:
    """Half a second, one, two … eight, each a quarter shorter at most; a server's hint counts."""
    backoff = Backoff()
    for tries, longest in enumerate((0.5, 1, 2, 4, 8, 8, 8)):
        waits = [backoff.delay_s(tries) for _ in range(200)]
        assert 0.75 * longest <= min(waits) < 0.8 * longest
        assert 0.95 * longest < max(waits) <= longest
    assert backoff.delay_s(10_000) <= 8
    assert backoff.delay_s(0, 5) == 5
    assert backoff.delay_s(0, 1e9) == 60
