"""`ApiError`: what a client is told when something is refused, in OpenAI's form.

Owns the codes and types of refusals at the edge, and the one table from exceptions to them. Knows
no socket: the edges send `body()` with `status`, or `event()`.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping
from typing import Any

from radixchat.engine.errors import NO_DETAILS, EngineStopped, ResponseNotFound
from radixchat.server.error_info import ErrorInfo, describe_error
from radixchat.server.response_options import ResponseOptions
from radixchat.server.wire_error import ErrorBody, ErrorEvent
from radixchat.server.wire_value import wire_dict

_LOGGER = logging.getLogger(__name__)

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_OPTIONS = frozenset(field.name for field in dataclasses.fields(ResponseOptions))
# What went wrong inside is for the log: the exception's words may be a path, or another's text.
_INSIDE = {
    "server_error": "the server failed at this request; its log says how",
    "engine_failed": "the engine has stopped; the server's log says how",
    "store_error": "the server's database failed; its log says how",
}
_PARAMS = {
    "conversation_locked": "conversation",
    "conversation_not_found": "conversation",
    "response_not_found": "response_id",
    "context_length_exceeded": "input",
}


class ApiError(Exception):
    """A refusal: HTTP status, OpenAI's type and code, a sentence, the field, numbers by name.

    details: among them `retry_after_ms`, where trying again later would do. event_id, stream_id: of
    the client event that is refused, as far as it could be read.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        type_: str | None = None,
        param: str | None = None,
        details: Mapping[str, Any] = NO_DETAILS,
        event_id: str | None = None,
        stream_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.type = type_ or error_type(status)
        self.param = param
        self.details = dict(details)
        self.event_id = event_id
        self.stream_id = stream_id

    @property
    def retry_after_ms(self) -> int | None:
        """When to try again; None: never, as it is."""
        wait = self.details.get("retry_after_ms")
        return None if wait is None else int(wait)

    @property
    def headers(self) -> dict[str, str]:
        """HTTP's `Retry-After`, in whole seconds, and `retry-after-ms`, which the SDK prefers."""
        wait = self.retry_after_ms
        if wait is None:
            return {}
        return {"Retry-After": str(math.ceil(wait / 1000)), "retry-after-ms": str(wait)}

    def error(self) -> dict[str, Any]:
        """The inner object, the same on both ways."""
        inner = ErrorBody(type=self.type, code=self.code, message=self.message, param=self.param)
        return {**self.details, **wire_dict(inner)}

    def body(self) -> dict[str, Any]:
        """The body of an HTTP answer."""
        return {"error": self.error()}

    def event(self, *, event_id: str | None = None, stream_id: str | None = None) -> dict[str, Any]:
        """The event on a socket; event_id, stream_id: the client event's, where it has none."""
        event = ErrorEvent(
            status=self.status,
            error=ErrorBody(type=self.type, code=self.code, message=self.message, param=self.param),
            event_id=self.event_id or event_id,
            stream_id=self.stream_id or stream_id,
        )
        return {**wire_dict(event), "error": self.error()}


def error_type(status: int) -> str:
    """OpenAI's `type` of a status."""
    return _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")


def api_error_of(error: BaseException) -> ApiError:
    """What a client is told of an exception; a bug, or a failed database, is logged here."""
    if isinstance(error, ApiError):
        return error
    info = describe_error(error)
    if info.code in _INSIDE and not isinstance(error, EngineStopped):  # that is told once
        _LOGGER.error("a request failed", exc_info=error)
    return api_error_of_info(info)


def api_error_of_info(info: ErrorInfo) -> ApiError:
    """The same of an error that a response ended with."""
    param = _PARAMS.get(info.code)
    if info.code == "invalid_value":
        first_word = info.message.partition(" ")[0]
        param = first_word if first_word in _OPTIONS else None  # their sentences begin with them
    return ApiError(info.status, info.code, sentence(info), param=param, details=info.details)


def sentence(info: ErrorInfo) -> str:
    """What a client is told of an error in words."""
    return _INSIDE.get(info.code, info.message)


def unsupported(param: str, message: str) -> ApiError:
    """A field that asks for what this server does not have."""
    return ApiError(400, "unsupported_parameter", message, param=param)


def invalid_value(param: str, message: str) -> ApiError:
    """A field whose value cannot be."""
    return ApiError(400, "invalid_value", message, param=param)


def missing(param: str) -> ApiError:
    """A field that has to be there."""
    message = f"{param} is missing; it is required"
    return ApiError(400, "missing_required_parameter", message, param=param)


def previous_response_not_found(error: ResponseNotFound) -> ApiError:
    """OpenAI has a code of its own for the response that a new one goes on from."""
    code, param = "previous_response_not_found", "previous_response_id"
    return ApiError(404, code, str(error), param=param)


def model_not_found(asked: str, served: str) -> ApiError:
    """Another model than the one this process has."""
    message = f"model is {asked!r}, which this server does not have; it has {served!r}"
    return ApiError(404, "model_not_found", message, param="model")
