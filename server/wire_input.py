"""What a client says in a request for a response: messages, the format it wants, our extras.

Wire values, standard library only; the meaning of each is in `response_ask.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from radixchat.server.heading import MAX_TITLE
from radixchat.server.wire_value import MANY, Bound

LaneName = Annotated[str, Bound(pattern=r"^[A-Za-z0-9_.-]{1,256}$")]
EventId = Annotated[str, Bound(min_length=1, max_length=256)]
Id = Annotated[str, Bound(min_length=1, max_length=256)]
Title = Annotated[str, Bound(max_length=MAX_TITLE)]
AnswerCount = Annotated[int, Bound(ge=1, le=16)]
Names = Annotated[tuple[str, ...], MANY]
# OpenAI's bounds.
Metadata = Annotated[
    dict[Annotated[str, Bound(max_length=64)], Annotated[str, Bound(max_length=512)]],
    Bound(max_length=16),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentPart:
    """A part of a message: `input_text`, `output_text` or `text`; other types are refused."""

    type: str
    text: str | None = None


Content = str | Annotated[tuple[ContentPart, ...], MANY]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputItem:
    """An item of `input`: a message; other types are refused."""

    type: str = "message"
    role: str | None = None
    content: Content | None = None
    id: str | None = None
    status: str | None = None


Input = str | Annotated[tuple[InputItem, ...], MANY]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRef:
    """A conversation by its id."""

    id: Id


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat:
    """What the text has to be; schema: a JSON schema, of "json_schema"."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextConfig:
    """The `text` object of a request; verbosity is accepted and has no effect."""

    format: TextFormat | None = None
    verbosity: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """OpenAI's `prompt_cache_options`.

    comparison_response_id: what a miss is explained by; without it that is the closest earlier
    response of the conversation. prewarm: true is as `generate` false. How long to keep what
    changes nothing.
    """

    comparison_response_id: str | None = None
    mode: str | None = None
    prewarm: bool | None = None
    ttl: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarFormat:
    """An answer's format beyond OpenAI's: a regular expression, one of some texts, a grammar.

    value: the expression, a JSON list of the texts, or the Lark grammar.
    """

    kind: Literal["regex", "choice", "lark"]
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How an answer is sampled, as far as OpenAI's API has no name for it; null: the default.

    The names and meanings are those of the terminal client's options.
    """

    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    logit_bias: Mapping[str, float] | None = None
    bad_words: Names | None = None
    stop: str | Names | None = None
    seed: int | None = None
    min_output_tokens: int | None = None
    ignore_eos: bool | None = None
    speculate: bool | None = None
    timeout_s: float | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras(Sampling):
    """The `x` object of a request for a response: everything that is ours.

    response_format: instead of `text.format`. n: answers to the one question, siblings of which
    the first is in the conversation. on_busy: what to do while the conversation answers another
    turn. return_progress: events about the prompt's computation, to clients that said hello.
    return_token_ids: the exact tokens in the last event. cache: "on"; the others are refused by
    name. edit_turn: the input replaces that user turn of the conversation, counted from 1.
    detach_s: how long it goes on when nobody reads it; null: the server's default; 0: not at all;
    -1: to its end.
    """

    response_format: GrammarFormat | None = None
    n: AnswerCount | None = None
    on_busy: Literal["reject", "queue", "interrupt"] | None = None
    return_progress: bool | None = None
    return_token_ids: bool | None = None
    cache: Literal["on", "off", "read_only"] | None = None
    edit_turn: Annotated[int, Bound(ge=1)] | None = None
    detach_s: Annotated[float, Bound(ge=-1)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRequest:
    """What `response.create` and the body of POST /v1/responses have in common.

    OpenAI's fields with OpenAI's meanings; ours are in `x`. What this server has not (tools,
    images, running in the background) is refused with a sentence. Other fields are ignored.
    """

    input: Input | None = None
    model: str | None = None
    instructions: str | None = None
    conversation: Id | ConversationRef | None = None
    previous_response_id: Id | None = None
    store: bool | None = None
    generate: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    truncation: Literal["auto", "disabled"] | None = None
    text: TextConfig | None = None
    include: Names | None = None
    metadata: Metadata | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: CacheOptions | None = None
    background: bool | None = None
    tools: Annotated[tuple[Mapping[str, Any], ...], MANY] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    prompt: Mapping[str, Any] | None = None
    moderation: Mapping[str, Any] | None = None
    x: Extras | None = None
