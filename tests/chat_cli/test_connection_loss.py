"""Which ends of a connection are worth another try, and what the others are."""

from __future__ import annotations

import json
import ssl

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosedError, InvalidHandshake, InvalidStatus
from websockets.frames import Close
from websockets.http11 import Response

from radixchat.chat_cli.connection_loss import closed, not_opened
from radixchat.chat_cli.server_address import ServerAddress
from radixchat.server.api_error import ApiError
from radixchat.server.protocol import (
    InvalidRequest,
    KeyRefused,
    RadixChatError,
    RateLimited,
    ServerDraining,
    ServerUnreachable,
)

ADDRESS = ServerAddress.parse("ws://here:1")


@pytest.mark.parametrize("code", [1001, 1005, 1006, 1011, 1012, 1013, 1014, 1015, 3008])
def test_ends_that_are_worth_another_try(code: int) -> None:
    """A restart, an overload, a slow reader, a network: with the wait that the server asked for."""
    frame = None if code in (1005, 1006, 1015) else Close(code, "why")
    loss = closed(ConnectionClosedError(frame, None), ADDRESS, 2.0)
    assert (loss.is_final, loss.retry_after_s) == (False, 2.0)
    assert isinstance(loss.error, ServerUnreachable)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1000, ServerUnreachable),
        (1003, ServerUnreachable),
        (1008, ServerUnreachable),
        (1009, InvalidRequest),
        (3000, KeyRefused),
        (3003, KeyRefused),
        (4409, ServerUnreachable),
        (4429, RateLimited),
    ],
)
def test_ends_that_are_final(code: int, kind: type[RadixChatError]) -> None:
    """What would only happen again; code and reason are told."""
    loss = closed(ConnectionClosedError(Close(code, "why"), None), ADDRESS, 0)
    assert loss.is_final
    assert type(loss.error) is kind
    assert f"{code} (why)" in str(loss.error)


def test_what_we_cannot_read_is_final() -> None:
    """A message larger than we take: it would come again."""
    assert closed(ConnectionClosedError(None, Close(1009, "")), ADDRESS, 0).is_final


def refusal(status: int, body: object, **headers: str) -> InvalidStatus:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return InvalidStatus(Response(status, "", Headers(**headers), data))


@pytest.mark.parametrize(
    ("error", "kind", "is_final"),
    [
        (ApiError(401, "invalid_api_key", "no"), KeyRefused, True),
        (ApiError(403, "origin_not_allowed", "no"), InvalidRequest, True),
        (ApiError(429, "rate_limit_exceeded", "no", details={"limit": 3}), RateLimited, False),
        (ApiError(503, "server_overloaded", "no"), ServerDraining, False),
        (ApiError(503, "model_loading", "loading"), ServerDraining, False),
    ],
)
def test_refused_handshakes(error: ApiError, kind: type[RadixChatError], is_final: bool) -> None:
    """What the server says before it upgrades, in its words, with its wait."""
    loss = not_opened(refusal(error.status, error.body(), Retry_After="3"), ADDRESS)
    assert type(loss.error) is kind
    assert error.message in str(loss.error)
    assert (loss.is_final, loss.retry_after_s) == (is_final, 0.0)
    headers = {"Retry-After": "3"}
    assert not_opened(refusal(503, {}, **headers), ADDRESS).retry_after_s == 3


@pytest.mark.parametrize(
    ("failure", "is_final", "told"),
    [
        (refusal(404, b"<html>"), True, "status 404"),
        (refusal(502, b"[1]"), False, "status 502"),
        (refusal(503, {}, **{"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), False, "503"),
        (ConnectionRefusedError(111, "Connection refused"), False, "`radixchat serve`"),
        (TimeoutError(), False, "in time"),
        (InvalidHandshake("odd"), False, "no radixchat server"),
        (ssl.SSLCertVerificationError("bad"), True, "certificate"),
    ],
)
def test_nobody_there(failure: Exception, is_final: bool, told: str) -> None:
    """No server, another server, or one that cannot be trusted; the address is told."""
    loss = not_opened(failure, ADDRESS)
    assert loss.is_final == is_final
    assert isinstance(loss.error, ServerUnreachable)
    assert told in str(loss.error)
    assert "ws://here:1" in str(loss.error)
