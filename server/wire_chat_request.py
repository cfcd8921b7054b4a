"""The body of POST /v1/chat/completions. Wire values, standard library only.

OpenAI's fields; beside them, those of the terminal client's options under their own names, and
`min_tokens`, as other servers have it. What each means is in `chat_ask.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from radixchat.server.wire_input import (
    AnswerCount,
    Content,
    GrammarFormat,
    Metadata,
    Names,
    Sampling,
)
from radixchat.server.wire_value import MANY


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """What an answer calls; arguments: a JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageToolCall:
    """One call of an answer that is sent back."""

    id: str = ""
    type: Literal["function"] = "function"
    function: FunctionCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessageParam:
    """One message; `name` is accepted and has no effect."""

    role: str
    content: Content | None = None
    tool_calls: Annotated[tuple[MessageToolCall, ...], MANY] | None = None
    tool_call_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchema:
    """Of a response format; `strict` is always on."""

    name: str | None = None
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFormat:
    """OpenAI's `response_format`."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """include_usage: a last chunk has the usage."""

    include_usage: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFunction:
    """A function by its name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTool:
    """The tool that has to be called."""

    type: Literal["function"] = "function"
    function: NamedFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionSampling(Sampling):
    """What chat and text completions have in common.

    return_token_ids: the exact tokens of prompt and answer come with it.
    """

    model: str | None = None
    response_format: ChatFormat | GrammarFormat | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    n: AnswerCount | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCompletionRequest(CompletionSampling):
    """The whole conversation, to be answered. What this server has not is refused by name."""

    messages: Annotated[tuple[ChatMessageParam, ...], MANY]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: Annotated[tuple[Mapping[str, Any], ...], MANY] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    modalities: Names | None = None
    audio: Mapping[str, Any] | None = None
    prediction: Mapping[str, Any] | None = None
    web_search_options: Mapping[str, Any] | None = None
    functions: Annotated[tuple[Mapping[str, Any], ...], MANY] | None = None
    function_call: str | Mapping[str, Any] | None = None
