"""`ConnectionLost`: why there is no connection, and whether trying again can help.

Owns the meaning of close codes and of refused handshakes. Knows no retries: whoever keeps the
connection waits and gives up.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Mapping
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Response

from radixchat.chat_cli.server_address import ServerAddress
from radixchat.server.event_reader import ProtocolError, error_of
from radixchat.server.protocol import (
    InvalidRequest,
    KeyRefused,
    RadixChatError,
    RateLimited,
    ServerUnreachable,
)

UNAUTHORIZED, FORBIDDEN, QUOTA, TOO_BIG = 3000, 3003, 4429, 1009
# Protocol errors, policy, messages that are too big: the same again would end the same way.
_FINAL_CODES = frozenset({1000, 1002, 1003, 1007, 1008, TOO_BIG, 1010, UNAUTHORIZED, FORBIDDEN})
_PRIVATE_CODES = range(4400, 4500)
_NO_FRAME = 1006
_TOO_MANY, _SERVER_ERRORS = 429, 500


class ConnectionLost(Exception):
    """error: what to raise where trying again does not help, or has not.

    is_final: it does not. retry_after_s: how long the server asked to wait.
    """

    def __init__(
        self, error: RadixChatError, *, is_final: bool = False, retry_after_s: float = 0.0
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_final = is_final
        self.retry_after_s = retry_after_s


def closed(failure: ConnectionClosed, address: ServerAddress, hint_s: float) -> ConnectionLost:
    """A connection that was open; hint_s: what the server has said of coming back."""
    frame = failure.rcvd
    code = _NO_FRAME if frame is None else frame.code
    if frame is None and failure.sent is not None and failure.sent.code in _FINAL_CODES:
        frame, code = failure.sent, failure.sent.code  # ours: what came cannot be read
    reason = f" ({frame.reason})" if frame is not None and frame.reason else ""
    message = f"{address.shown} has closed the connection: {code}{reason}"
    if code not in _FINAL_CODES and code not in _PRIVATE_CODES:
        return ConnectionLost(ServerUnreachable(message), retry_after_s=hint_s)
    match code:
        case c if c in (UNAUTHORIZED, FORBIDDEN):
            error: RadixChatError = KeyRefused(message)
        case c if c == QUOTA:
            error = RateLimited(message, 0)
        case c if c == TOO_BIG:
            error = InvalidRequest(message)
        case _:
            error = ServerUnreachable(message)
    return ConnectionLost(error, is_final=True)


def not_opened(failure: Exception, address: ServerAddress) -> ConnectionLost:
    """A connection that could not be made."""
    where = address.shown
    match failure:
        case InvalidStatus():
            return _refused(failure.response, address)
        case ssl.SSLCertVerificationError():
            detail = getattr(failure, "verify_message", failure)
            why = f"its certificate is not to be trusted: {detail}"
            return ConnectionLost(ServerUnreachable(f"{where}: {why}"), is_final=True)
        case TimeoutError():
            return ConnectionLost(ServerUnreachable(f"{where} did not answer in time"))
        case OSError():
            message = f"no server answers at {where}: {_why(failure)}; `radixchat serve` starts one"
            return ConnectionLost(ServerUnreachable(message))
        case _:
            return ConnectionLost(ServerUnreachable(f"{where} is no radixchat server: {failure}"))


def _why(failure: OSError) -> str:
    """asyncio's own words for it name the address once more."""
    number = failure.errno
    if number is not None and number > 0:  # those of a name that is not found are negative
        return os.strerror(number)
    return failure.strerror or str(failure)


def _refused(response: Response, address: ServerAddress) -> ConnectionLost:
    status = response.status_code
    error = _error_in(response, status)
    retries = status == _TOO_MANY or status >= _SERVER_ERRORS
    if error is None:
        message = f"{address.shown} is no radixchat server: it answers with status {status}"
        error = ServerUnreachable(message)
    elif isinstance(error, KeyRefused):
        error = KeyRefused(f"{address.shown}: {error} (in a terminal: --key, RADIXCHAT_KEY)")
    after = _seconds(response.headers.get("Retry-After"))
    return ConnectionLost(error, is_final=not retries, retry_after_s=after)


def _error_in(response: Response, status: int) -> RadixChatError | None:
    """What an HTTP answer of ours says; None: it is somebody else's."""
    try:
        body = json.loads(bytes(response.body or b""))
        if not isinstance(body, Mapping):
            return None
        fields: Mapping[str, Any] = {**body, "status": status}
        return error_of(fields)
    except (ValueError, ProtocolError):
        return None


def _seconds(header: str | None) -> float:
    try:
        return max(float(header or 0), 0.0)
    except ValueError:
        return 0.0  # a date
