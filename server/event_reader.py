"""What a client reads off the socket, as the protocol's values again. Standard library only.

The inverse of `encode.py`, for the events of a response, and of `ApiError`, for refusals: a client
far away gets the values and the exceptions that one in the process gets. Trusts the server as far
as its own types go: a field that is missing or of another kind is a `ProtocolError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

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
    StoreError,
)
from radixchat.server.error_info import ErrorInfo
from radixchat.server.miss_report import MissReport
from radixchat.server.output_logprob import OutputLogprob
from radixchat.server.response_events import (
    CacheReport,
    CacheSegment,
    OutputTextDelta,
    PrefillProgress,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseSnapshot,
)
from radixchat.server.response_object import response_of_item
from radixchat.server.response_options import ResponseOptions
from radixchat.server.response_usage import ResponseTimings, ResponseUsage

Fields = Mapping[str, Any]
T = TypeVar("T")


class ProtocolError(RadixChatError):
    """The other side sent what cannot be."""


def response_event(event: Fields) -> ResponseEvent | None:
    """The value of one event of a response; None for those that say nothing more.

    Raises ProtocolError of an event that lacks what its type has.
    """
    read = _READERS.get(event.get("type", ""))
    return None if read is None else readable(f"an event {event['type']!r}", read, event)


def readable(what: str, read: Callable[[Fields], T], fields: Fields) -> T:
    """What `read` makes of the fields. Raises ProtocolError where it finds them otherwise."""
    try:
        return read(fields)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ProtocolError(f"{what} that cannot be read: {error!r}") from error


def response_id_of(event: Fields) -> str | None:
    """The response that an event belongs to; None: to none, or the server's event is not ours."""
    response, item = event.get("response"), event.get("item")
    if isinstance(response, Mapping):
        return _text(response.get("id"))
    if isinstance(item, Mapping) and isinstance(item.get("id"), str):
        return response_of_item(item["id"])
    if isinstance(event.get("item_id"), str):
        return response_of_item(event["item_id"])
    return _text(event.get("response_id"))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def error_of(event: Fields) -> RadixChatError:
    """The exception that stands for a refusal: an `error` event, or an HTTP answer's body."""
    error = event.get("error")
    if not isinstance(error, Mapping):
        raise ProtocolError(f"an error without an `error`: {event!r:.200}")
    code, message = str(error.get("code")), str(error.get("message"))
    wait = error.get("retry_after_ms")
    retry_after_ms = wait if isinstance(wait, int) else 0
    match code:
        case "context_length_exceeded" if isinstance(error.get("n_prompt_tokens"), int):
            limit, by = error.get("max_prompt_tokens", 0), str(error.get("limited_by"))
            at_least = " at least " in message
            return PromptTooLong(error["n_prompt_tokens"], limit, by, at_least=at_least)
        case "conversation_locked":
            return ConversationLocked(message, retry_after_ms)
        case "rate_limit_exceeded":
            known = ("type", "code", "message", "param", "retry_after_ms")
            numbers = {name: value for name, value in error.items() if name not in known}
            return RateLimited(message, retry_after_ms, numbers)
        case "server_overloaded" if isinstance(error.get("waiting"), int):
            return EngineOverloaded(error["waiting"], error.get("limit", 0))
        case "server_overloaded" | "model_loading":
            return ServerDraining(retry_after_ms, message)
        case _:
            status = event.get("status")
            otherwise = (
                InvalidRequest if isinstance(status, int) and status < 500 else EngineStopped
            )
            return _ERRORS.get(code, otherwise)(message)


_ERRORS: dict[str, type[RadixChatError]] = {
    "conversation_not_found": ConversationNotFound,
    "response_not_found": ResponseNotFound,
    "previous_response_not_found": ResponseNotFound,
    "idempotency_conflict": IdempotencyConflict,
    "invalid_api_key": KeyRefused,
    "engine_failed": EngineStopped,
    "model_unavailable": ModelLoadError,
    "invalid_configuration": ConfigError,
    "store_error": StoreError,
}


def _created(event: Fields) -> ResponseCreated:
    response = event["response"]
    extras = response["x"]
    return ResponseCreated(
        conversation=extras["conversation"],
        response=response["id"],
        left_out=tuple(extras["left_out"]),
        left_out_tokens=extras["left_out_tokens"],
        message=extras["message"],
        created_at=response["created_at"],
        listed=response["conversation"] is not None,
        instructions=response["instructions"],
        previous_response=response["previous_response_id"],
        options=ResponseOptions(
            temperature=response["temperature"],
            top_p=response["top_p"],
            max_output_tokens=response["max_output_tokens"],
            truncation=response["truncation"],
        ),
        metadata=response["metadata"],
    )


def _delta(event: Fields) -> OutputTextDelta:
    extras, number = event["x"], event["sequence_number"]
    return OutputTextDelta(
        response=response_of_item(event["item_id"]),
        delta=event["delta"],
        sequence=number,
        first_sequence=extras.get("first_sequence_number", number),
        offset=extras["offset"],
    )


def _progress(event: Fields) -> PrefillProgress:
    return PrefillProgress(
        event["response_id"], event["total"], event["cached"], event["processed"], event["time_ms"]
    )


def _cache(event: Fields) -> CacheReport:
    return _report(event, event["response_id"])


def cache_report(event: Fields) -> CacheReport:
    """What `cache.inspected` tells of a prompt. Raises ProtocolError."""
    return readable("a cache report", lambda told: _report(told, None), event)


def _report(event: Fields, response: str | None) -> CacheReport:
    segments = tuple(
        CacheSegment(part["from"], part["to"], part["state"], part["message"], part.get("text"))
        for part in event["segments"]
    )
    divergence = event["divergence"]
    return CacheReport(
        response=response,
        input_tokens=event["input_tokens"],
        cached_tokens=event["cached_tokens"],
        segments=segments,
        divergence=None if divergence is None else _miss(divergence),
        computing_ms=event.get("computing_ms"),
    )


def _snapshot(event: Fields) -> ResponseSnapshot:
    return ResponseSnapshot(
        event["response_id"], event["sequence_number"], event["output_text"], event["status"]
    )


def _done(event: Fields) -> ResponseDone:
    response, number = event["response"], event["sequence_number"]
    extras, output = response["x"], response["output"]
    part: Fields = output[0]["content"][0] if output else {"text": "", "logprobs": []}
    reason = response["incomplete_details"]
    usage = _usage(response["usage"], response["timings"], response["x_cache"])
    logprobs = _logprobs(part["logprobs"])
    return ResponseDone(
        conversation=extras["conversation"],
        response=response["id"],
        status=event["type"].removeprefix("response."),
        reason=None if reason is None else reason["reason"],
        output_text=part["text"],
        usage=usage,
        timings=_timings(response["timings"], extras.get("first_tokens", 1)),
        input_ids=tuple(extras.get("input_ids", ())),
        output_ids=tuple(extras.get("output_ids", ())),
        seed=extras.get("seed"),
        error=_error(response["error"]),
        miss=_miss(response["x_cache"]),
        stop=extras.get("stop"),
        logprobs=logprobs or None,
        n_ctx=extras.get("n_ctx"),
        tokens_left=extras.get("tokens_left"),
        left_out=tuple(extras["left_out"]),
        left_out_tokens=extras["left_out_tokens"],
        sequence=number - 3 if output else number,
    )


def _usage(usage: Fields, timings: Fields, cache: Fields) -> ResponseUsage:
    read, written = usage["input_tokens_details"], usage["output_tokens_details"]
    return ResponseUsage(
        input_tokens=usage["input_tokens"],
        cached_tokens=read["cached_tokens"],
        cache_write_tokens=read["cache_write_tokens"],
        output_tokens=usage["output_tokens"],
        draft_tokens=written["draft_tokens"],
        accepted_tokens=written["accepted_tokens"],
        kept_tokens=written["kept_tokens"],
        # A server of an earlier version has no tiers.
        host_tokens=timings.get("cache_host_n", 0),
        disk_tokens=timings.get("cache_disk_n", 0),
        store_tokens=timings.get("cache_store_n", 0),
        not_restored=cache.get("not_restored"),
    )


def _timings(timings: Fields, first_tokens: int) -> ResponseTimings:
    return ResponseTimings(
        ttft_ms=timings["ttft_ms"],
        prompt_ms=timings["prompt_ms"],
        predicted_ms=timings["predicted_ms"],
        queue_ms=timings["queue_ms"],
        first_tokens=first_tokens,
    )


def _miss(details: Fields) -> MissReport | None:
    if details["reason"] is None:
        return None
    return MissReport(
        reason=details["reason"],
        index=details["index"],
        message=details.get("message"),
        expected_text=details.get("expected_text"),
        got_text=details.get("got_text"),
        cache_missed_tokens=details["cache_missed_tokens"],
        comparison_reusable_tokens=details.get("comparison_reusable_tokens"),
        evicted_seconds_ago=details.get("evicted_seconds_ago"),
    )


def _error(error: Fields | None) -> ErrorInfo | None:
    if error is None:
        return None
    status = 400 if error["code"] == "invalid_prompt" else 500
    return ErrorInfo(error["x_code"], status, error["message"], dict(error["x_details"]))


def _logprobs(entries: list[Fields]) -> tuple[OutputLogprob, ...]:
    return tuple(
        OutputLogprob(
            entry["token"],
            bytes(entry["bytes"]) or None,
            entry["logprob"],
            _logprobs(entry.get("top_logprobs", [])),
        )
        for entry in entries
    )


_READERS: dict[str, Callable[[Fields], ResponseEvent]] = {
    "response.created": _created,
    "response.output_text.delta": _delta,
    "response.prefill.progress": _progress,
    "response.cache": _cache,
    "response.snapshot": _snapshot,
    "response.completed": _done,
    "response.incomplete": _done,
    "response.failed": _done,
}
