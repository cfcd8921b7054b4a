"""What POST /v1/chat/completions answers, whole and in chunks. Wire values, standard library only.

A field whose default is None is not sent where it says nothing; OpenAI's required ones always are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from radixchat.server.wire_chat_request import FunctionCall

Finish = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionUsage:
    """Tokens of all choices together; a prompt that several answer counts once.

    prompt_tokens_details: cached_tokens (at most prompt_tokens - 1), cache_write_tokens;
    completion_tokens_details: reasoning_tokens (always 0), accepted and rejected_prediction_tokens
    of what was guessed ahead.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: Mapping[str, int]
    completion_tokens_details: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopTokenLogprob:
    """One of the likeliest tokens of a place."""

    token: str
    bytes: tuple[int, ...] | None
    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTokenLogprob:
    """A token of the answer; bytes: null of one that shows nothing."""

    token: str
    bytes: tuple[int, ...] | None
    logprob: float
    top_logprobs: tuple[TopTokenLogprob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLogprobs:
    """Of the tokens that are shown; calls included."""

    content: tuple[ChatTokenLogprob, ...]
    refusal: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerToolCall:
    """A call of a function, complete."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMessage:
    """The answer; content: null where it is nothing but calls."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    tool_calls: tuple[AnswerToolCall, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatChoice:
    """One answer. stop_reason: the stop text that ended it. token_ids: all that was sampled."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: Finish
    stop_reason: str | None = None
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCompletion:
    """All answers. timings: milliseconds, of the first choice, with llama.cpp's names."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    system_fingerprint: str
    choices: tuple[ChatChoice, ...]
    usage: CompletionUsage
    timings: Mapping[str, Any] | None = None
    prompt_token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaFunction:
    """name: with a call's first part only; arguments: more of the JSON text."""

    name: str | None = None
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaToolCall:
    """A part of call number `index`; id and type: with its first."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: DeltaFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDelta:
    """What a chunk adds to an answer."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    tool_calls: tuple[DeltaToolCall, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkChoice:
    """One answer's part of a chunk; finish_reason: null before its last."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: Finish | None
    stop_reason: str | None = None
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCompletionChunk:
    """One event of a stream; the last has no choices, and the usage, if that was asked for."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    system_fingerprint: str
    choices: tuple[ChunkChoice, ...]
    usage: CompletionUsage | None = None
    timings: Mapping[str, Any] | None = None
