"""A response on the wire: OpenAI's `response` object, and ours in it under names with an `x`.

Wire values, standard library only. Where OpenAI's type says that a field is there, it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from radixchat.server.wire_input import ConversationRef


@dataclass(frozen=True, slots=True, kw_only=True)
class TopLogprob:
    """One of the likeliest tokens of a place."""

    token: str
    bytes: tuple[int, ...]
    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A sampled token; bytes: none of a token that shows nothing."""

    token: str
    bytes: tuple[int, ...]
    logprob: float
    top_logprobs: tuple[TopLogprob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputText:
    """The one part of an answer."""

    type: Literal["output_text"] = "output_text"
    text: str
    annotations: tuple[Mapping[str, Any], ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputMessage:
    """The answer; status: "in_progress", "completed" or "incomplete"."""

    type: Literal["message"] = "message"
    id: str
    status: Literal["in_progress", "completed", "incomplete"]
    role: Literal["assistant"] = "assistant"
    content: tuple[OutputText, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTokens:
    """cache_write_tokens: of the prompt and answer, those that are new in the cache."""

    cached_tokens: int
    cache_write_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTokens:
    """draft_tokens, accepted_tokens: guessed ahead, and right; kept_tokens: what goes on."""

    reasoning_tokens: int = 0
    draft_tokens: int
    accepted_tokens: int
    kept_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageObject:
    """Tokens; cached_tokens <= input_tokens - 1."""

    input_tokens: int
    input_tokens_details: InputTokens
    output_tokens: int
    output_tokens_details: OutputTokens
    total_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Milliseconds and tokens, with llama.cpp's names where it has one.

    cache_n: all cached tokens; of these cache_host_n, cache_disk_n and cache_store_n came back from
    below the pool.
    """

    ttft_ms: float | None
    queue_ms: float | None
    prompt_ms: float | None
    predicted_ms: float | None
    cache_n: int
    cache_host_n: int
    cache_disk_n: int
    cache_store_n: int
    prompt_n: int
    predicted_n: int
    predicted_per_second: float | None
    draft_n: int
    draft_n_accepted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheDiagnostics:
    """OpenAI's `prompt_cache_diagnostics`, with OpenAI's reasons; ours is in `x_cache`."""

    type: Literal["cache_miss", "cache_hit", "comparison_response_not_found", "unavailable"]
    reason: str | None = None
    cache_missed_tokens: int | None = None
    comparison_reusable_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheDetails:
    """Where the cached tokens came from, and why there were not more: see MissReport.

    source: the farthest place that some came from; null where none was cached. reason: null where
    nothing was missed. not_restored: why what lies below the pool was computed again.
    """

    source: Literal["memory", "host", "disk", "store"] | None
    reason: str | None
    not_restored: str | None = None
    index: int | None = None
    message: str | None = None
    expected_text: str | None = None
    got_text: str | None = None
    evicted_seconds_ago: float | None = None
    cache_missed_tokens: int | None = None
    comparison_reusable_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteDetails:
    """Why an answer is not whole.

    reason: OpenAI's "max_output_tokens", or our "context_length", "deadline", "interrupted" and
    "server_shutdown".
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseErrorObject:
    """Why a response failed: one of OpenAI's codes; x_code: ours, x_details: its numbers."""

    code: str
    message: str
    x_code: str
    x_details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseExtras:
    """What OpenAI has no name for.

    message: the id of the user's message. seed: repeats a sampled answer. stop: the text that ended
    it. n_ctx, tokens_left: of the conversation. left_out: messages that the prompt is without.
    first_tokens: how many came with the first. input_ids, output_ids: the exact tokens, if asked.
    """

    conversation: str
    message: str
    left_out: tuple[str, ...] = ()
    left_out_tokens: int = 0
    seed: int | None = None
    stop: str | None = None
    n_ctx: int | None = None
    tokens_left: int | None = None
    first_tokens: int | None = None
    input_ids: tuple[int, ...] | None = None
    output_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningObject:
    """Nothing: no model here is told how long to think."""

    effort: None
    summary: None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseObject:
    """OpenAI's `response`. conversation: null where no list shows it (a chain by ids)."""

    id: str
    object: Literal["response"] = "response"
    created_at: float
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    background: bool = False
    conversation: ConversationRef | None
    error: ResponseErrorObject | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    metadata: Mapping[str, str]
    model: str
    output: tuple[OutputMessage, ...]
    parallel_tool_calls: bool = True
    previous_response_id: str | None
    reasoning: ReasoningObject
    service_tier: Literal["default"] = "default"
    temperature: float
    text: Mapping[str, Any]
    tool_choice: Literal["auto"] = "auto"
    tools: tuple[Mapping[str, Any], ...] = ()
    top_logprobs: int
    top_p: float
    truncation: Literal["auto", "disabled"]
    usage: UsageObject | None
    prompt_cache_diagnostics: CacheDiagnostics | None = None
    timings: Timings | None = None
    x_cache: CacheDetails | None = None
    x: ResponseExtras
