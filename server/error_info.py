"""`ErrorInfo`: an error as a code, a status, a sentence and numbers; the one table that makes it.

Standard library only. Knows no wire: who sends it decides the shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from radixchat.engine.errors import (
    ConfigError,
    ConversationLocked,
    ConversationNotFound,
    EngineOverloaded,
    EngineStopped,
    IdempotencyConflict,
    InvalidRequest,
    KeyRefused,
    ModelLoadError,
    PromptTooLong,
    RadixChatError,
    RateLimited,
    ResponseNotFound,
    ServerDraining,
    ServerUnreachable,
    StoreError,
)


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error as a client gets it: a code to act on, a sentence to show, numbers to use."""

    code: str
    status: int
    message: str
    details: dict[str, Any]


# The most derived class first: the first match wins.
ERROR_CODES: tuple[tuple[type[RadixChatError], str, int], ...] = (
    (PromptTooLong, "context_length_exceeded", 400),
    (InvalidRequest, "invalid_value", 400),
    (ConversationNotFound, "conversation_not_found", 404),
    (ConversationLocked, "conversation_locked", 409),
    (ResponseNotFound, "response_not_found", 404),
    (IdempotencyConflict, "idempotency_conflict", 409),
    (RateLimited, "rate_limit_exceeded", 429),
    (ServerDraining, "server_overloaded", 503),
    (EngineOverloaded, "server_overloaded", 503),
    (EngineStopped, "engine_failed", 500),
    (ModelLoadError, "model_unavailable", 503),
    (ConfigError, "invalid_configuration", 400),
    (StoreError, "store_error", 500),
    (KeyRefused, "invalid_api_key", 401),
    (ServerUnreachable, "server_unavailable", 503),
)


def describe_error(error: BaseException) -> ErrorInfo:
    """The client's view of an exception; one that is not ours is a bug: `server_error`."""
    for cls, code, status in ERROR_CODES:
        if isinstance(error, cls):
            return ErrorInfo(code, status, str(error), _details(error))
    return ErrorInfo("server_error", 500, f"{type(error).__name__}: {error}", {})


def _details(error: RadixChatError) -> dict[str, Any]:
    match error:
        case PromptTooLong():
            return {
                "n_prompt_tokens": error.num_tokens,
                "n_ctx": error.limit + 1,
                "max_prompt_tokens": error.limit,
                "limited_by": error.limited_by,
            }
        case EngineOverloaded():
            return {"waiting": error.waiting, "limit": error.limit}
        case RateLimited():
            return {"retry_after_ms": error.retry_after_ms, **error.details}
        case ConversationLocked() | ServerDraining():
            return {"retry_after_ms": error.retry_after_ms}
        case _:
            return {}
