"""POST /v1/completions, /tokenize and /detokenize: bodies and answers. Wire values, stdlib only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from radixchat.server.wire_chat_completion import CompletionUsage, Finish
from radixchat.server.wire_chat_request import ChatMessageParam, CompletionSampling
from radixchat.server.wire_input import AnswerCount
from radixchat.server.wire_value import MANY, Bound

TokenId = Annotated[int, Bound(ge=0, le=2**31 - 1)]
TokenIds = Annotated[tuple[TokenId, ...], Bound(min_length=1, max_length=1 << 20)]
PROMPTS = Bound(min_length=1, max_length=128)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest(CompletionSampling):
    """What is to be gone on with: text or token ids, one or several of either.

    Text is encoded as it is: nothing in it is a control token. Token ids may be any.
    """

    prompt: (
        str
        | TokenIds
        | Annotated[tuple[str, ...], PROMPTS]
        | Annotated[tuple[TokenIds, ...], PROMPTS]
    )
    best_of: AnswerCount | None = None
    echo: bool | None = None
    logprobs: int | None = None
    suffix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLogprobs:
    """Four lists of one length, a place each; text_offset: where in the text a token begins."""

    tokens: tuple[str, ...]
    token_logprobs: tuple[float | None, ...]
    top_logprobs: tuple[Mapping[str, float] | None, ...]
    text_offset: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChoice:
    """One continuation, or a part of it; finish_reason: null before its last part."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Finish | None
    stop_reason: str | None = None
    token_ids: tuple[int, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCompletion:
    """All continuations, or one event of a stream."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: tuple[TextChoice, ...]
    usage: CompletionUsage | None = None
    timings: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizeRequest:
    """Text (`prompt` or `content`), or a chat's `messages` with its `tools`, to be encoded.

    add_generation_prompt: of a chat; without, it is that of the messages alone.
    """

    prompt: str | None = None
    content: str | None = None
    messages: Annotated[tuple[ChatMessageParam, ...], MANY] | None = None
    tools: Annotated[tuple[Mapping[str, Any], ...], MANY] | None = None
    add_generation_prompt: bool | None = None
    return_token_strs: bool | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenized:
    """The ids; max_model_len: as many a conversation can have."""

    tokens: tuple[int, ...]
    count: int
    max_model_len: int
    token_strs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DetokenizeRequest:
    """Ids to be decoded."""

    tokens: Annotated[tuple[TokenId, ...], Bound(max_length=1 << 20)]
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detokenized:
    """Their text, under the two names that servers have for it; control tokens show nothing."""

    prompt: str
    content: str
