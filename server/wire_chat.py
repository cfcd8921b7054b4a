"""The body of POST /v1/chat/completions and what answers it. Wire values, standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from radixchat.server.wire_input import AnswerCount, Content, Names, Sampling
from radixchat.server.wire_response import CacheDetails, Timings
from radixchat.server.wire_value import MANY

FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledFunction:
    """arguments: JSON, as the model wrote it."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallObject:
    """A call that the model asks for."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessageInput:
    """A message of the conversation; role: system, developer, user, assistant or tool."""

    role: str
    content: Content | None = None
    name: str | None = None
    tool_calls: Annotated[tuple[ToolCallObject, ...], MANY] | None = None
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchema:
    """A named schema."""

    name: str | None = None
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFormat:
    """What the answer has to be; the last three types are ours: see GrammarFormat."""

    type: Literal["text", "json_object", "json_schema", "regex", "choice", "lark"]
    json_schema: JsonSchema | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """include_usage: a last chunk without choices has it."""

    include_usage: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequestBase(Sampling):
    """What both kinds of completions have in common: OpenAI's names, and the sampling of ours.

    min_tokens: another name of min_output_tokens.
    """

    model: str | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: AnswerCount | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    truncation: Literal["auto", "disabled"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCompletionRequest(CompletionRequestBase):
    """The body of POST /v1/chat/completions; nothing of it is stored."""

    messages: Annotated[tuple[ChatMessageInput, ...], MANY]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: ChatFormat | None = None
    tools: Annotated[tuple[Mapping[str, Any], ...], MANY] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: Any = None
    function_call: Any = None
    audio: Any = None
    modalities: Names | None = None
    web_search_options: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTokens:
    """Of the prompt's tokens; cache_write_tokens: new in the cache, the answer's too."""

    cached_tokens: int
    cache_write_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionTokens:
    """Of the answer's; the predictions are the guesses of OpenAI's name for them."""

    reasoning_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionUsage:
    """Tokens, of all choices together; the prompt counts once."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokens
    completion_tokens_details: CompletionTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTopLogprob:
    """One of the likeliest tokens; bytes: null of one that shows nothing."""

    token: str
    bytes: tuple[int, ...] | None
    logprob: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTokenLogprob:
    """A sampled token."""

    token: str
    bytes: tuple[int, ...] | None
    logprob: float
    top_logprobs: tuple[ChatTopLogprob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceLogprobs:
    """Of the answer's tokens, in order."""

    content: tuple[ChatTokenLogprob, ...] | None
    refusal: None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMessage:
    """content: null where there are only calls."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None
    tool_calls: tuple[ToolCallObject, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatChoice:
    """One of n answers."""

    index: int
    message: AnswerMessage
    logprobs: ChoiceLogprobs | None
    finish_reason: FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCompletion:
    """The answer in one piece."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: tuple[ChatChoice, ...]
    usage: CompletionUsage
    system_fingerprint: str | None = None
    timings: Timings | None = None
    x_cache: CacheDetails | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDelta:
    """More of a call; name: with the first piece."""

    name: str | None = None
    arguments: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta:
    """More of the call at `index`; id and type: with the first piece."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceDelta:
    """More of an answer; role: with the first piece."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    tool_calls: tuple[ToolCallDelta, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkChoice:
    """A piece of one of n answers."""

    index: int
    delta: ChoiceDelta
    logprobs: ChoiceLogprobs | None
    finish_reason: FinishReason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCompletionChunk:
    """One event of the stream; choices: none in the last, which has the usage."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: tuple[ChunkChoice, ...]
    usage: CompletionUsage | None = None
    system_fingerprint: str | None = None
    timings: Timings | None = None
    x_cache: CacheDetails | None = None
