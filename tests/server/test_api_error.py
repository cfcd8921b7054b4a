"""Refusals in OpenAI's form, and which exception is which."""

from __future__ import annotations

import logging

import pytest

from radixchat.engine.errors import (
    ConversationLocked,
    ConversationNotFound,
    EngineOverloaded,
    EngineStopped,
    InvalidRequest,
    PromptTooLong,
    RateLimited,
    ServerDraining,
    StoreError,
)
from radixchat.server.api_error import (
    ApiError,
    api_error_of,
    invalid_value,
    missing,
    model_not_found,
    unsupported,
)
from radixchat.server.event_reader import error_of


def test_a_refusal_is_the_same_object_on_both_ways() -> None:
    """HTTP: {"error": …}; the socket: an event around it, with the names of what is refused."""
    error = invalid_value("temperature", "temperature is 'hot'")
    inner = {
        "type": "invalid_request_error",
        "code": "invalid_value",
        "message": "temperature is 'hot'",
        "param": "temperature",
    }
    assert error.body() == {"error": inner}
    assert error.event(event_id="e1", stream_id="main") == {
        "type": "error",
        "status": 400,
        "error": inner,
        "event_id": "e1",
        "stream_id": "main",
    }
    assert error.headers == {}


@pytest.mark.parametrize(
    ("error", "status", "code", "type_"),
    [
        (
            PromptTooLong(900, 511, "context"),
            400,
            "context_length_exceeded",
            "invalid_request_error",
        ),
        (InvalidRequest("no"), 400, "invalid_value", "invalid_request_error"),
        (ConversationNotFound("no"), 404, "conversation_not_found", "invalid_request_error"),
        (ConversationLocked("busy", 250), 409, "conversation_locked", "invalid_request_error"),
        (RateLimited("enough", 1500, {"limit": 3}), 429, "rate_limit_exceeded", "rate_limit_error"),
        (EngineOverloaded(8, 8), 503, "server_overloaded", "server_error"),
        (ServerDraining(2000), 503, "server_overloaded", "server_error"),
        (EngineStopped("dead"), 500, "engine_failed", "server_error"),
        (model_not_found("gpt-4", "tiny"), 404, "model_not_found", "invalid_request_error"),
        (missing("input"), 400, "missing_required_parameter", "invalid_request_error"),
        (unsupported("tools", "no tools"), 400, "unsupported_parameter", "invalid_request_error"),
        (ApiError(401, "invalid_api_key", "who?"), 401, "invalid_api_key", "authentication_error"),
    ],
)
def test_every_exception_has_its_code(error: Exception, status: int, code: str, type_: str) -> None:
    """Status, code, OpenAI's type."""
    told = api_error_of(error)
    assert (told.status, told.code, told.type) == (status, code, type_)


def test_the_numbers_come_with_it() -> None:
    """How long the prompt is and what would do; when to try again, in a header as well."""
    inner = api_error_of(PromptTooLong(900, 511, "context")).error()
    assert (inner["n_prompt_tokens"], inner["n_ctx"]) == (900, 512)
    error = api_error_of(RateLimited("enough", 1500, {"limit": 3}))
    assert (error.error()["retry_after_ms"], error.error()["limit"]) == (1500, 3)
    assert error.headers == {"Retry-After": "2", "retry-after-ms": "1500"}


def test_the_field_is_named_where_the_message_begins_with_it() -> None:
    """What ResponseOptions refuses."""
    assert api_error_of(InvalidRequest("timeout_s is -1; allowed: more")).param == "timeout_s"
    assert api_error_of(InvalidRequest("the last message is empty")).param is None


def test_a_bug_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """Its text may be another's; the client hears that it is the server's fault."""
    with caplog.at_level(logging.ERROR):
        error = api_error_of(KeyError("a secret path"))
    assert (error.status, error.code) == (500, "server_error")
    assert "secret" not in error.message
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    ("error", "logged"), [(StoreError("/home/secret.db is full"), 1), (EngineStopped("secret"), 0)]
)
def test_what_failed_inside_is_not_told(
    error: Exception, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A path of the machine, or what another client's request broke at, is for the log."""
    with caplog.at_level(logging.ERROR):
        told = api_error_of(error)
    assert "secret" not in told.message
    assert told.code in ("store_error", "engine_failed")
    assert len(caplog.records) == logged


@pytest.mark.parametrize(
    "error",
    [
        PromptTooLong(900, 511, "context"),
        InvalidRequest("temperature is 9"),
        ConversationNotFound("none"),
        ConversationLocked("busy", 250),
        RateLimited("enough", 1500, {"limit": 3, "per": "minute"}),
        EngineOverloaded(8, 9),
        ServerDraining(2000),
        EngineStopped("the engine has stopped; the server's log says how"),
    ],
)
def test_a_client_gets_the_exception_back(error: Exception) -> None:
    """Its class, its sentence and its numbers, from the event on the socket."""
    read = error_of(api_error_of(error).event())
    assert type(read) is type(error)
    assert str(read) == str(error)
    assert vars(read) == vars(error)
