"""To which names a server answers, and to which pages; as an ASGI layer before anything else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from radixchat.engine.errors import ConfigError
from radixchat.server.metrics import Metrics
from radixchat.server.origin import Doorway, host_name, is_this_machine
from radixchat.server.serve_settings import ServeSettings

PASSED = 200


def status(
    settings: ServeSettings,
    host: str | None,
    origin: str | None = None,
    path: str = "/v1/models",
    kind: str = "http",
) -> int:
    """What a request is answered; PASSED: it came through."""
    answered: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        answered.append(PASSED)

    async def send(message: Message) -> None:
        if "status" in message:
            expected = "websocket.http.response.start" if kind == "websocket" else ""
            assert message["type"] == (expected or "http.response.start")
            answered.append(message["status"])

    async def receive() -> Message:
        raise AssertionError("nothing is read before a request is let in")

    named = (("host", host), ("origin", origin))
    headers = [(name.encode(), value.encode()) for name, value in named if value is not None]
    scope: MutableMapping[str, Any] = {
        "type": kind,
        "path": path,
        "headers": headers,
        "extensions": {"websocket.http.response": {}},
    }
    doorway = Doorway(app, settings, Metrics(), ["/v1/responses"])
    asyncio.run(doorway(scope, receive, send))
    (answer,) = answered
    return answer


LOOPBACK = ServeSettings()
EVERYWHERE = ServeSettings(host="0.0.0.0")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", PASSED),
        ("LOCALHOST:8000", PASSED),
        ("localhost.:8000", PASSED),
        ("127.0.0.1:1", PASSED),
        ("[::1]:8000", PASSED),
        ("evil.example:8000", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost@evil.example", 421),
        ("evil.example/localhost", 421),
        ("[::1", 421),
        ("localhost?evil.example", 421),
        ("localhost\\evil.example", 421),
        ("local\thost", 421),
        ("192.168.1.5", 421),
        ("", 421),
        (None, 421),
    ],
)
def test_a_page_s_name_is_not_ours(host: str | None, expected: int) -> None:
    """A name that was made to point here is refused: DNS rebinding."""
    assert status(LOOPBACK, host) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("192.168.1.5:8000", PASSED),
        ("[fe80::1]:8000", PASSED),
        ("localhost", PASSED),
        ("evil.example", 421),
    ],
)
def test_a_server_at_every_address_goes_by_addresses(host: str, expected: int) -> None:
    """Nobody's name can be made to look like an address; names have to be allowed."""
    assert status(EVERYWHERE, host) == expected


def test_more_names_can_be_allowed() -> None:
    """`--allow-host` adds a name, or all."""
    assert status(ServeSettings(allow_hosts=("chat.example",)), "Chat.Example:443") == PASSED
    assert status(ServeSettings(allow_hosts=("chat.example",)), "x.chat.example") == 421
    assert status(ServeSettings(allow_hosts=("*",)), "anything.example") == PASSED
    assert status(ServeSettings(host="10.0.0.7"), "10.0.0.7:8000") == PASSED


def test_probes_come_by_any_name() -> None:
    """Whether the process lives is no secret, and what asks for it does not know the name."""
    assert status(LOOPBACK, "10.1.2.3:8000", path="/healthz") == PASSED
    assert status(LOOPBACK, None, path="/readyz") == PASSED


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("localhost:8000", None, PASSED),
        ("localhost:8000", "http://localhost:8000", PASSED),
        ("localhost", "http://localhost", PASSED),
        ("localhost:80", "http://localhost", PASSED),
        ("localhost", "https://localhost", PASSED),  # behind a proxy that ends TLS
        ("localhost:8000", "http://localhost:3000", 403),
        ("localhost:8000", "http://127.0.0.1:8000", 403),
        ("localhost:8000", "https://evil.example", 403),
        ("localhost:8000", "null", 403),
        ("localhost:8000", "", 403),
        ("localhost:8000", "file://", 403),
        ("localhost:8000", "http://localhost:8000@evil.example", 403),
        ("localhost:8000", "http://localhost:99999", 403),
        ("localhost:8000", "chrome-extension://localhost:8000", 403),
    ],
)
def test_only_its_own_pages_may_ask(host: str, origin: str | None, expected: int) -> None:
    """A browser says from which page a request is; another's is refused, a program has none."""
    assert status(LOOPBACK, host, origin) == expected
    assert status(LOOPBACK, host, origin, "/v1/responses", "websocket") == expected


def test_pages_can_be_allowed() -> None:
    """`--allow-origin` adds a page, or all."""
    allowed = ServeSettings(allow_origins=("https://app.example/", "null"))
    assert status(allowed, "localhost", "https://app.example") == PASSED
    assert status(allowed, "localhost", "https://APP.example") == PASSED
    assert status(allowed, "localhost", "null") == PASSED
    assert status(allowed, "localhost", "http://app.example") == 403
    assert status(ServeSettings(allow_origins=("*",)), "localhost", "https://x.example") == PASSED


def test_a_socket_elsewhere_is_nowhere() -> None:
    """The path comes first: what is not there is not found, whoever asks."""
    assert status(LOOPBACK, "evil.example", None, "/v1/other", "websocket") == 404
    assert status(LOOPBACK, "evil.example", None, "/v1/responses", "websocket") == 421


@pytest.mark.parametrize(
    ("addresses", "local"),
    [
        (["127.0.0.1"], True),
        (["127.9.9.9", "::1"], True),
        (["::1", "10.0.0.1"], False),
        (["0.0.0.0"], False),
        (["fe80::1%eth0"], False),
    ],
)
def test_which_addresses_are_of_this_machine_only(addresses: list[str], local: bool) -> None:
    """A server is local if no other machine reaches any of its addresses."""
    assert is_this_machine(addresses) == local


def test_host_names() -> None:
    """A Host is a name and maybe a port, and nothing else."""
    assert host_name("A.b:1") == "a.b"
    assert host_name("[::1]:1") == "::1"
    for wrong in ("", ":1", "a@b", "a/b", "[", "[::1"):
        assert host_name(wrong) is None


@pytest.mark.parametrize(
    ("origin", "would_do"),
    [
        ("example.org", "https://example.org"),
        ("localhost:3000", "https://localhost:3000"),
        ("http://example.org/app", "http://example.org"),
        ("https://me@example.org:8443", "https://example.org:8443"),
        ("https://", "https://example.org"),
        ("", "https://example.org"),
        ("http://h:port", "https://example.org"),
    ],
)
def test_what_no_browser_sends_is_refused(origin: str, would_do: str) -> None:
    """It would never be the same as an Origin; what would be is said."""
    with pytest.raises(ConfigError, match=re.escape(repr(origin))) as refused:
        ServeSettings(allow_origins=(origin,))
    assert str(refused.value).endswith(f"such as {would_do}")


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "null",
        "https://a.example",
        "http://[::1]:80",
        "chrome-extension://abc",
        "https://A.example/",
    ],
)
def test_what_a_browser_may_send_is_taken(origin: str) -> None:
    """Other schemes too: an extension's pages have their own."""
    assert ServeSettings(allow_origins=(origin,)).allow_origins == (origin,)
