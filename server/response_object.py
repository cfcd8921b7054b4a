"""`response_object`: a response as OpenAI's API shows it, from the events that we have of it.

Knows no socket and no lane; `encode.py` puts it into events.
"""

from __future__ import annotations

import json
from typing import Any, Literal, cast

from radixchat.server.api_error import sentence
from radixchat.server.miss_report import MissReport
from radixchat.server.output_logprob import OutputLogprob
from radixchat.server.response_events import NO_TEXT_DONE, ResponseCreated, ResponseDone
from radixchat.server.response_options import ResponseFormat
from radixchat.server.response_usage import ResponseUsage
from radixchat.server.wire_input import ConversationRef
from radixchat.server.wire_response import (
    CacheDetails,
    CacheDiagnostics,
    IncompleteDetails,
    InputTokens,
    OutputMessage,
    OutputText,
    OutputTokens,
    ReasoningObject,
    ResponseErrorObject,
    ResponseExtras,
    ResponseObject,
    Timings,
    TokenLogprob,
    TopLogprob,
    UsageObject,
)

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]

# OpenAI's reasons of a miss, for those of ours that it has a name for.
_REASONS = {
    "changed": "input_changed",
    "template": "input_changed",
    "truncated": "context_compacted",
    "model": "model_changed",
    "namespace": "prompt_cache_key_changed",
}
LOWEST_LOGPROB = -9999.0  # OpenAI's number for a token that cannot be; JSON has no infinity
_NO_REASONING = ReasoningObject(effort=None, summary=None)


def response_object(
    created: ResponseCreated,
    done: ResponseDone | None = None,
    *,
    model: str,
    status: Status = "in_progress",
    output_text: str = "",
    token_ids: bool = False,
) -> ResponseObject:
    """A response as it is now: with `done` at its end, else with the status and text given.

    token_ids: with the exact tokens, which only the end has.
    """
    options = created.options
    return ResponseObject(
        id=created.response,
        created_at=created.created_at,
        status=status if done is None else final_status(done),
        conversation=ConversationRef(id=created.conversation) if created.listed else None,
        error=None if done is None else _error(done),
        incomplete_details=(
            None if done is None or done.reason is None else IncompleteDetails(reason=done.reason)
        ),
        instructions=created.instructions,
        max_output_tokens=options.max_output_tokens,
        metadata=created.metadata,
        model=model,
        output=_output(created, done, output_text),
        previous_response_id=created.previous_response,
        reasoning=_NO_REASONING,
        temperature=options.temperature,
        text=_text_config(options.response_format),
        top_logprobs=options.top_logprobs or 0,
        top_p=options.top_p,
        truncation="auto" if options.truncation == "auto" else "disabled",
        usage=None if done is None else usage_object(done.usage),
        prompt_cache_diagnostics=None if done is None else diagnostics(done),
        timings=None if done is None else Timings(**done.timings.to_dict(done.usage)),
        x_cache=None if done is None else cache_details(done.miss, done.usage),
        x=_extras(created, done, token_ids=token_ids),
    )


def final_status(done: ResponseDone) -> Status:
    """OpenAI has a status for what a person ended, and no event of that name."""
    if done.reason == "interrupted":
        return "cancelled"
    match done.status:
        case "completed" | "incomplete" | "failed":
            return done.status
        case _:
            raise AssertionError(f"a response ends {done.status!r}")


def item_id(response: str) -> str:
    """The id of a response's one output item, known before there is any text."""
    return "msg_" + response.removeprefix("resp_")


def response_of_item(item: str) -> str:
    """The response whose item has that id."""
    return "resp_" + item.removeprefix("msg_")


def output_message(
    response: str, status: ItemStatus, content: tuple[OutputText, ...]
) -> OutputMessage:
    """The answer as an item."""
    return OutputMessage(id=item_id(response), status=status, content=content)


def output_part(done: ResponseDone) -> OutputText:
    """The answer's text as it stays."""
    return OutputText(text=done.output_text, logprobs=token_logprobs(done.logprobs or ()))


def item_status(done: ResponseDone) -> ItemStatus:
    """Whether the answer is whole."""
    return "completed" if done.status == "completed" else "incomplete"


def token_logprobs(logprobs: tuple[OutputLogprob, ...]) -> tuple[TokenLogprob, ...]:
    """In the form of the Responses API, which has numbers and lists only."""
    return tuple(
        TokenLogprob(
            token=entry.token,
            bytes=tuple(entry.data or b""),
            logprob=max(entry.logprob, LOWEST_LOGPROB),
            top_logprobs=tuple(
                TopLogprob(
                    token=other.token,
                    bytes=tuple(other.data or b""),
                    logprob=max(other.logprob, LOWEST_LOGPROB),
                )
                for other in entry.top
            ),
        )
        for entry in logprobs
    )


def usage_object(usage: ResponseUsage) -> UsageObject:
    """Tokens, under the Responses API's names."""
    return UsageObject(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputTokens(
            cached_tokens=usage.cached_tokens, cache_write_tokens=usage.cache_write_tokens
        ),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputTokens(
            draft_tokens=usage.draft_tokens,
            accepted_tokens=usage.accepted_tokens,
            kept_tokens=usage.kept_tokens,
        ),
        total_tokens=usage.input_tokens + usage.output_tokens,
    )


def diagnostics(done: ResponseDone) -> CacheDiagnostics:
    """OpenAI's words for what the cache did; what it has no word for is "unavailable"."""
    miss = done.miss
    if miss is None:
        return CacheDiagnostics(type="cache_hit" if done.usage.cached_tokens else "unavailable")
    if miss.reason == "cold":
        return CacheDiagnostics(type="comparison_response_not_found")
    reason = _REASONS.get(miss.reason)
    return CacheDiagnostics(
        type="unavailable" if reason is None else "cache_miss",
        reason=reason,
        cache_missed_tokens=miss.cache_missed_tokens,
        comparison_reusable_tokens=miss.comparison_reusable_tokens,
    )


def cache_details(miss: MissReport | None, usage: ResponseUsage) -> CacheDetails:
    """Our words for it, all of them."""
    return details_of(miss, usage.source, usage.not_restored)


def details_of(
    miss: MissReport | None, source: str | None, not_restored: str | None = None
) -> CacheDetails:
    """The same of a prompt that nobody has asked an answer to; source: one of SOURCES."""
    place = cast("Literal['memory', 'host', 'disk', 'store'] | None", source)
    if miss is None:
        return CacheDetails(source=place, reason=None, not_restored=not_restored)
    return CacheDetails(
        source=place,
        reason=miss.reason,
        not_restored=not_restored,
        index=miss.index,
        message=miss.message,
        expected_text=miss.expected_text,
        got_text=miss.got_text,
        evicted_seconds_ago=miss.evicted_seconds_ago,
        cache_missed_tokens=miss.cache_missed_tokens,
        comparison_reusable_tokens=miss.comparison_reusable_tokens,
    )


def _output(
    created: ResponseCreated, done: ResponseDone | None, text: str
) -> tuple[OutputMessage, ...]:
    if done is not None:
        if not has_item(done):
            return ()
        return (output_message(created.response, item_status(done), (output_part(done),)),)
    if not text:
        return ()
    return (output_message(created.response, "in_progress", (OutputText(text=text),)),)


def has_item(done: ResponseDone) -> bool:
    """Whether there is an answer, if an empty one: not after `generate: false`, nor a failure."""
    return done.sequence != NO_TEXT_DONE


def _error(done: ResponseDone) -> ResponseErrorObject | None:
    """OpenAI's codes are few; ours stands beside."""
    if done.error is None:
        return None
    code = "invalid_prompt" if done.error.status < 500 else "server_error"
    return ResponseErrorObject(
        code=code,
        message=sentence(done.error),
        x_code=done.error.code,
        x_details=done.error.details,
    )


def _text_config(wanted: ResponseFormat | None) -> dict[str, Any]:
    match wanted:
        case ResponseFormat(kind="json_object"):
            return {"format": {"type": "json_object"}}
        case ResponseFormat(kind="json_schema", value=value):
            schema = json.loads(value)
            return {"format": {"type": "json_schema", "name": "answer", "schema": schema}}
        case _:
            return {"format": {"type": "text"}}


def _extras(
    created: ResponseCreated, done: ResponseDone | None, *, token_ids: bool
) -> ResponseExtras:
    extras: dict[str, Any] = {
        "conversation": created.conversation,
        "message": created.message,
        "left_out": created.left_out,
        "left_out_tokens": created.left_out_tokens,
    }
    if done is not None:
        extras |= {
            "seed": done.seed,
            "stop": done.stop,
            "n_ctx": done.n_ctx,
            "tokens_left": done.tokens_left,
            "first_tokens": done.timings.first_tokens,
        }
        if token_ids:
            extras |= {"input_ids": done.input_ids, "output_ids": done.output_ids}
    return ResponseExtras(**extras)
