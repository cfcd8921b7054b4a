"""An `ApiError` as an HTTP answer, and every exception of a route as one.

Owns what HTTP adds: headers that clients and proxies act on. Codes are `api_error.py`'s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from radixchat.engine.errors import RadixChatError
from radixchat.server.api_error import ApiError, api_error_of
from radixchat.server.edge import edge_of
from radixchat.server.json_line import JsonLine
from radixchat.server.metrics import Metrics

_UNAUTHORIZED, _TIMEOUT, _TOO_BIG = 401, 408, 413
_HEADERS: Mapping[int, Mapping[str, str]] = {
    _UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
    # What of the body was not read is in the way of the connection's next request.
    _TIMEOUT: {"Connection": "close"},
    _TOO_BIG: {"Connection": "close"},
}


def error_response(error: ApiError, metrics: Metrics) -> JsonLine:
    """The answer to a request, or to a WebSocket that is not opened; it is counted."""
    metrics.refused(error.code)
    headers = {**error.headers, **_HEADERS.get(error.status, {})}
    return JsonLine(error.body(), error.status, headers)


async def refused(request: Request, error: Exception) -> Response:
    """What a route refuses: an ApiError, or an error of ours that the table knows."""
    assert isinstance(error, ApiError | RadixChatError)
    return error_response(api_error_of(error), edge_of(request).metrics)


async def not_routed(request: Request, error: Exception) -> Response:
    """What starlette refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)
    code = HTTPStatus(error.status_code).name.lower()
    # Not `request.url`: that is made of the Host, which for a probe may be anything.
    message = f"{request.method} {request.scope['path']}: {error.detail}"
    response = error_response(ApiError(error.status_code, code, message), edge_of(request).metrics)
    response.headers.update(error.headers or {})
    return response


async def gone(request: Request, error: Exception) -> Response:
    """The client left before its body was there: nobody reads this, but it is counted."""
    left = ApiError(400, "client_disconnected", "the connection ended before the body")
    return error_response(left, edge_of(request).metrics)


async def failed(request: Request, error: Exception) -> Response:
    """A bug. Whoever runs the app logs its traceback; the client learns that it was not theirs."""
    bug = ApiError(500, "server_error", "the server failed at this request; its log says how")
    return error_response(bug, edge_of(request).metrics)


HANDLERS: Mapping[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    ApiError: refused,
    RadixChatError: refused,
    HTTPException: not_routed,
    ClientDisconnect: gone,
    Exception: failed,
}
