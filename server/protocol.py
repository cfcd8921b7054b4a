"""What a client sees of a response: events, the record of a turn, errors as codes.

Frozen values, standard library only: importable without torch, numpy or a socket. Knows no
tokenizer, no store and no engine; the service produces these values, clients consume them.
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
    InvalidRequest,
    ModelLoadError,
    PromptTooLong,
    RadixChatError,
    StoreError,
)
from radixchat.server.output_logprob import OutputLogprob
from radixchat.server.response_options import TRUNCATIONS, ResponseFormat, ResponseOptions

__all__ = [
    "TRUNCATIONS",
    "ConversationLocked",
    "ConversationNotFound",
    "EngineStopped",
    "ErrorInfo",
    "InvalidRequest",
    "MessageView",
    "MissReport",
    "ModelLoadError",
    "OutputLogprob",
    "OutputTextDelta",
    "RadixChatError",
    "ResponseCreated",
    "ResponseDone",
    "ResponseEvent",
    "ResponseFormat",
    "ResponseOptions",
    "ResponseTimings",
    "ResponseUsage",
    "describe_error",
]


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
    (EngineOverloaded, "server_overloaded", 503),
    (EngineStopped, "engine_failed", 500),
    (ModelLoadError, "model_unavailable", 503),
    (ConfigError, "invalid_configuration", 400),
    (StoreError, "store_error", 500),
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
        case ConversationLocked():
            return {"retry_after_ms": error.retry_after_ms}
        case _:
            return {}


@dataclass(frozen=True, slots=True)
class MessageView:
    """One message on a conversation's path; status: "complete", "interrupted" or "error"."""

    id: str
    role: str
    text: str
    status: str


@dataclass(frozen=True, slots=True)
class ResponseUsage:
    """Tokens of one response. cached_tokens <= input_tokens - 1.

    draft_tokens: guessed from the conversation, or forced by a grammar, and computed ahead;
    accepted_tokens: those of them that were sampled, a part of the output. kept_tokens: of the
    output, the leading ones that the conversation goes on from; a stop token and those of a stop
    text are not. None where that is not known.
    """

    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    output_tokens: int
    draft_tokens: int = 0
    accepted_tokens: int = 0
    kept_tokens: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The `usage` object of the Responses API."""
        return {
            "input_tokens": self.input_tokens,
            "input_tokens_details": {
                "cached_tokens": self.cached_tokens,
                "cache_write_tokens": self.cache_write_tokens,
            },
            "output_tokens": self.output_tokens,
            "output_tokens_details": {
                "draft_tokens": self.draft_tokens,
                "accepted_tokens": self.accepted_tokens,
                "kept_tokens": self.kept_tokens,
            },
            "total_tokens": self.input_tokens + self.output_tokens,
        }


@dataclass(frozen=True, slots=True)
class ResponseTimings:
    """Milliseconds of one response.

    ttft_ms: from accepting the turn to the first token, waiting and encoding included.
    prompt_ms: from the hand-over to the engine to the first token. predicted_ms: from the first
    token to the last. queue_ms: of prompt_ms, how long others were served first. None: the response
    ended before there was a first token. first_tokens: how many came with the first.
    """

    ttft_ms: float | None
    prompt_ms: float | None
    predicted_ms: float | None
    queue_ms: float | None = None
    first_tokens: int = 1

    def to_dict(self, usage: ResponseUsage) -> dict[str, Any]:
        """The `timings` object, with llama.cpp's names; draft_n: guessed or forced tokens."""
        return {
            "ttft_ms": self.ttft_ms,
            "queue_ms": self.queue_ms,
            "prompt_ms": self.prompt_ms,
            "predicted_ms": self.predicted_ms,
            "cache_n": usage.cached_tokens,
            "prompt_n": usage.input_tokens - usage.cached_tokens,
            "predicted_n": usage.output_tokens,
            "predicted_per_second": self.predicted_per_second(usage),
            "draft_n": usage.draft_tokens,
            "draft_n_accepted": usage.accepted_tokens,
        }

    def predicted_per_second(self, usage: ResponseUsage) -> float | None:
        """Tokens a second after the prompt's step; None where there is no later step."""
        if not self.predicted_ms or usage.output_tokens <= self.first_tokens:
            return None
        return round((usage.output_tokens - self.first_tokens) / self.predicted_ms * 1000, 3)


@dataclass(frozen=True, slots=True)
class MissReport:
    """Why the cache had less of a prompt than an earlier response of the conversation promises.

    reason: "cold", there is no such response; "evicted", the tokens were in the cache and had to
    make room; "changed", a message before the one to be answered has another text; "template",
    the messages are the same but were rendered or encoded otherwise; "namespace", the earlier
    response was another tenant's; "model", another model, tokenizer or template made it;
    "expired", it was computed before this cache existed; "truncated", one of the two had turns
    that were left out of the other; else "unknown".

    index: the first token that was missed; of "changed", "template" and "truncated" the first that
    differs.
    message: the id of the prompt's message in whose share it lies, None where that is not known.
    expected_text, got_text: the earlier response's text and the prompt's around the first token
    that differs. comparison_reusable_tokens: leading tokens that both have; None where the earlier
    ones are not known. cache_missed_tokens: of "evicted", "expired" and "unknown", how many of
    these had to be computed again. Where the prompts differ ("changed", "template", "truncated",
    "namespace", "model"): tokens computed before the message to be answered, at most as many as
    the earlier response had. 0 of "cold".
    """

    reason: str
    index: int
    message: str | None
    expected_text: str | None
    got_text: str | None
    cache_missed_tokens: int
    comparison_reusable_tokens: int | None
    evicted_seconds_ago: float | None = None

    def diagnostics(self) -> dict[str, Any]:
        """The `prompt_cache_diagnostics` object of the Responses API, with our reasons."""
        cold = self.reason == "cold"
        return {
            "type": "comparison_response_not_found" if cold else "cache_miss",
            "reason": self.reason,
            "cache_missed_tokens": self.cache_missed_tokens,
            "comparison_reusable_tokens": self.comparison_reusable_tokens,
        }

    def details(self) -> dict[str, Any] | None:
        """What the Responses API has no name for: the `x_cache` object; None of "cold"."""
        if self.reason == "cold":
            return None  # nothing was missed
        return {
            "index": self.index,
            "message": self.message,
            "expected_text": self.expected_text,
            "got_text": self.got_text,
            "evicted_seconds_ago": self.evicted_seconds_ago,
        }


@dataclass(frozen=True, slots=True)
class ResponseCreated:
    """The turn is accepted and stored; nothing is computed yet.

    left_out: ids of the messages, oldest first, that the prompt is without, for want of room
    (`truncation` is "auto"); left_out_tokens: how many tokens the whole conversation has more.
    """

    conversation: str
    response: str
    left_out: tuple[str, ...] = ()
    left_out_tokens: int = 0


@dataclass(frozen=True, slots=True)
class OutputTextDelta:
    """More text; the deltas joined are the final text."""

    response: str
    delta: str


@dataclass(frozen=True, slots=True)
class ResponseDone:
    """The one terminal event of a response, sent after it is stored.

    conversation, response: None where a turn was refused before there was one (a client's record
    of it; nothing is sent then).
    status: "completed", "incomplete" or "failed" (error is set). reason, of "incomplete":
    "max_output_tokens", as many as were asked for; "context_length", the conversation has come to
    the end of what the model can see; "deadline", `timeout_s` have passed; "interrupted".
    stop: the one of the `stop` texts that ended the answer, which is not part of output_text.
    output_ids: all that was sampled, with a stop token and the tokens of a stop text. logprobs: of
    each of these, if they were asked for. seed: what repeats a sampled answer, drawn if none was
    asked for; None for a turn that was refused. miss: None where nothing was missed, where the
    cache is off, and where the answer ended before its first token. n_ctx: as many tokens a
    conversation can have; tokens_left: what the next turn has of them, its answer included.
    left_out, left_out_tokens: ResponseCreated's.
    """

    conversation: str | None
    response: str | None
    status: str
    reason: str | None
    output_text: str
    usage: ResponseUsage
    timings: ResponseTimings
    input_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    seed: int | None = None
    error: ErrorInfo | None = None
    miss: MissReport | None = None
    stop: str | None = None
    logprobs: tuple[OutputLogprob, ...] | None = None
    n_ctx: int | None = None
    tokens_left: int | None = None
    left_out: tuple[str, ...] = ()
    left_out_tokens: int = 0

    def to_turn(self, *, ids: bool = False) -> dict[str, Any]:
        """The turn as one JSON object; with `ids`, the exact tokens too."""
        turn: dict[str, Any] = {
            "type": "turn",
            "conversation": self.conversation,
            "response": self.response,
            "status": self.status,
            "incomplete_details": {"reason": self.reason} if self.reason else None,
            "output_text": self.output_text,
            "stop": self.stop,
            "logprobs": None if self.logprobs is None else [p.to_dict() for p in self.logprobs],
            "seed": self.seed,
            "usage": self.usage.to_dict(),
            "timings": self.timings.to_dict(self.usage),
            "n_ctx": self.n_ctx,
            "tokens_left": self.tokens_left,
            "prompt_cache_diagnostics": self.miss.diagnostics() if self.miss else None,
            "x_cache": self.miss.details() if self.miss else None,
            "left_out": list(self.left_out),
            "left_out_tokens": self.left_out_tokens,
        }
        if self.error is not None:
            turn["error"] = {
                "code": self.error.code,
                "message": self.error.message,
                **self.error.details,
            }
        if ids:
            turn["input_ids"] = list(self.input_ids)
            turn["output_ids"] = list(self.output_ids)
        return turn


ResponseEvent = ResponseCreated | OutputTextDelta | ResponseDone
