"""The bodies of /v1/completions, /tokenize and /detokenize. Wire values, standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from radixchat.server.wire_chat import ChatMessageInput, CompletionRequestBase, CompletionUsage
from radixchat.server.wire_response import CacheDetails, Timings
from radixchat.server.wire_value import MANY, Bound

# As long as a prompt of ids can be whose JSON fits a body of some MiB.
Ids = Annotated[tuple[int, ...], Bound(max_length=1_000_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest(CompletionRequestBase):
    """The body of POST /v1/completions: texts or token ids, without any template."""

    prompt: (
        str
        | Ids
        | Annotated[tuple[str, ...], Bound(max_length=64)]
        | Annotated[tuple[Ids, ...], Bound(max_length=64)]
    )
    echo: bool | None = None
    logprobs: int | None = None
    best_of: int | None = None
    suffix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionLogprobs:
    """Lists of the same length; text_offset: characters before the token; null: the first's."""

    text_offset: tuple[int, ...]
    token_logprobs: tuple[float | None, ...]
    tokens: tuple[str, ...]
    top_logprobs: tuple[Mapping[str, float] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionChoice:
    """One of n texts; finish_reason: null in a stream before the end."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The whole answer, or a piece of a stream, which OpenAI calls by the same name."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: tuple[CompletionChoice, ...]
    usage: CompletionUsage | None = None
    system_fingerprint: str | None = None
    timings: Timings | None = None
    x_cache: CacheDetails | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizeRequest:
    """A text, under vLLM's name or llama.cpp's; or messages, which get the chat template.

    add_special_tokens: with what a text begins with for this model. add_generation_prompt: of
    messages, with what asks for an answer.
    """

    model: str | None = None
    prompt: str | None = None
    content: str | None = None
    messages: Annotated[tuple[ChatMessageInput, ...], MANY] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenized:
    """max_model_len: tokens that a conversation can have."""

    tokens: tuple[int, ...]
    count: int
    max_model_len: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DetokenizeRequest:
    """Token ids."""

    model: str | None = None
    tokens: Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Detokenized:
    """The text, under vLLM's name and llama.cpp's."""

    prompt: str
    content: str
