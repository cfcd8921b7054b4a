"""What a request for a response asks of the service: `ResponseAsk`, and how it is read.

Owns the meaning of the wire's fields: which message is answered, which option is which, and the
sentences that refuse what this server does not have. Knows no service; the numbers' ranges are
`ResponseOptions`' and the engine's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from radixchat.engine.errors import InvalidRequest
from radixchat.server.api_error import (
    ApiError,
    api_error_of,
    invalid_value,
    missing,
    model_not_found,
    unsupported,
)
from radixchat.server.asks import (
    AnotherAnswer,
    Ask,
    EditedTurn,
    EventKey,
    InputMessage,
    LongerAnswer,
    NewTurn,
)
from radixchat.server.input_messages import input_messages
from radixchat.server.response_options import ResponseFormat, ResponseOptions
from radixchat.server.wire_client_events import (
    AnswerMessage,
    RegenerateExtras,
    ResponseCreate,
    ResponseExtend,
    ResponseRegenerate,
)
from radixchat.server.wire_input import (
    ConversationRef,
    Extras,
    GrammarFormat,
    ResponseRequest,
    Sampling,
    TextConfig,
    TextFormat,
)

LOGPROBS = "message.output_text.logprobs"  # of `include`
_NO_EXTRAS = Extras()


@dataclass(frozen=True, slots=True)
class ResponseAsk:
    """What to give `ChatService.begin`, and how its events are read.

    arguments: begin's keyword arguments. n: as many answers; those after the first are
    AnotherAnswer's of it. return_progress, return_token_ids: the Encoder's.
    """

    ask: Ask
    options: ResponseOptions
    arguments: Mapping[str, Any]
    n: int = 1
    return_progress: bool = False
    return_token_ids: bool = False


def response_create_to_ask(body: ResponseRequest, *, model: str) -> ResponseAsk:
    """A request as the service takes it; model: the one that this server has.

    Raises ApiError with the field's name and what would do.
    """
    extras = body.x or _NO_EXTRAS
    _refuse_unsupported(body, extras)
    if body.model is not None and body.model != model:
        raise model_not_found(body.model, model)
    event_id = body.event_id if isinstance(body, ResponseCreate) else None
    arguments = _arguments(event_id, extras.on_busy, body.metadata, extras.detach_s)
    if body.store is not None:
        arguments["store"] = body.store
    cache = body.prompt_cache_options
    if cache is not None and cache.comparison_response_id is not None:
        arguments["compared"] = cache.comparison_response_id
    if cache is not None and cache.prewarm:
        arguments["generate"] = False
    elif body.generate is not None:
        arguments["generate"] = body.generate
    return ResponseAsk(
        ask=_ask(body, extras),
        options=_create_options(body, extras),
        arguments=arguments,
        n=extras.n or 1,
        return_progress=bool(extras.return_progress),
        return_token_ids=bool(extras.return_token_ids),
    )


def regenerate_to_ask(event: ResponseRegenerate) -> ResponseAsk:
    """Another answer as the service takes it. Raises ApiError as above."""
    if (event.response_id is None) == (event.conversation is None):
        raise invalid_value("response_id", "give one of response_id and conversation")
    ask = AnotherAnswer(conversation=event.conversation, response=event.response_id)
    return _answer_to_ask(ask, event, event.n)


def extend_to_ask(event: ResponseExtend) -> ResponseAsk:
    """A longer answer as the service takes it. Raises ApiError as above."""
    return _answer_to_ask(LongerAnswer(event.conversation), event, 1)


def read_options(extras: Sampling | None, **given: Any) -> ResponseOptions:
    """ResponseOptions from wire values, where None stands for the default.

    given: under ResponseOptions' names; they stand above the extras'. Raises ApiError.
    """
    values = {**_sampling(extras), **{k: v for k, v in given.items() if v is not None}}
    try:
        return ResponseOptions(**values)
    except InvalidRequest as error:
        raise api_error_of(error) from error


def read_logit_bias(biases: Mapping[str, float] | None) -> tuple[tuple[int, float], ...] | None:
    """Token ids and what is added to their logits. Raises ApiError of a key that is no id."""
    if biases is None:
        return None
    for token in biases:
        if not (token.isascii() and token.isdigit() and len(token) < 10):
            raise invalid_value("logit_bias", f"logit_bias has {token[:20]!r}; a key is a token id")
    return tuple((int(token), bias) for token, bias in biases.items())


def _answer_to_ask(ask: Ask, event: AnswerMessage, n: int) -> ResponseAsk:
    extras = event.x
    return ResponseAsk(
        ask=ask,
        options=read_options(
            extras,
            max_output_tokens=event.max_output_tokens,
            temperature=event.temperature,
            top_p=event.top_p,
            top_logprobs=event.top_logprobs,
            truncation=event.truncation,
            response_format=_wanted_format(event.text, extras),
        ),
        arguments=_arguments(
            event.event_id,
            None if extras is None else extras.on_busy,
            event.metadata,
            None if extras is None else extras.detach_s,
        ),
        n=n,
        return_progress=bool(extras and extras.return_progress),
        return_token_ids=bool(extras and extras.return_token_ids),
    )


def _refuse_unsupported(body: ResponseRequest, extras: Extras) -> None:
    refused: tuple[tuple[str, bool, str], ...] = (
        ("tools", bool(body.tools), "use them with POST /v1/chat/completions"),
        (
            "tool_choice",
            body.tool_choice not in (None, "auto", "none"),
            'there are no tools here: "auto" and "none" mean the same',
        ),
        ("background", bool(body.background), "a stored response goes on when its reader is gone"),
        ("prompt", body.prompt is not None, "this server stores no prompts: send the input"),
        ("moderation", body.moderation is not None, "this server has no moderation model"),
        (
            "x.cache",
            extras.cache not in (None, "on"),
            "the cache changes no answer, and is on for all or none",
        ),
    )
    for param, is_asked, why in refused:
        if is_asked:
            raise unsupported(param, f"{param} is not supported for responses: {why}")
    if body.conversation is not None and body.previous_response_id is not None:
        message = "conversation and previous_response_id cannot be used together"
        raise ApiError(400, "invalid_value", message, param="previous_response_id")


def _ask(body: ResponseRequest, extras: Extras) -> Ask:
    conversation = body.conversation
    if isinstance(conversation, ConversationRef):
        conversation = conversation.id
    messages = _messages(body)
    if extras.edit_turn is not None:
        return _edited(conversation, extras.edit_turn, messages)
    return NewTurn(
        messages,
        conversation=conversation,
        previous_response=body.previous_response_id,
        instructions=body.instructions,
    )


def _messages(body: ResponseRequest) -> tuple[InputMessage, ...]:
    """The input; to warm up the cache, instructions alone will do."""
    to_answer = body.generate is not False
    if body.input is None:
        if to_answer or body.instructions is None:
            raise missing("input")
        return ()
    return input_messages(body.input, to_answer=to_answer)


def _edited(conversation: str | None, turn: int, messages: Sequence[InputMessage]) -> EditedTurn:
    if conversation is None:
        raise missing("conversation")
    if len(messages) != 1:
        message = f"input has {len(messages)} messages; an edited turn has one, the user's"
        raise invalid_value("input", message)
    return EditedTurn(conversation, turn, messages[0].text)


def read_grammar(wanted: GrammarFormat | None) -> ResponseFormat | None:
    """Our formats, which OpenAI has no name for."""
    return None if wanted is None else ResponseFormat(wanted.kind, wanted.value)


def _create_options(body: ResponseRequest, extras: Extras) -> ResponseOptions:
    include = body.include or ()
    top_logprobs = body.top_logprobs
    if top_logprobs is None and LOGPROBS in include:
        top_logprobs = 0
    return read_options(
        extras,
        max_output_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        top_logprobs=top_logprobs,
        truncation=body.truncation,
        response_format=_wanted_format(body.text, extras),
    )


def _wanted_format(
    text: TextConfig | None, extras: Extras | RegenerateExtras | None
) -> ResponseFormat | None:
    """What an answer has to look like, by either of two fields. Raises ApiError."""
    wanted = None if text is None else read_text_format(text.format)
    grammar = None if extras is None else read_grammar(extras.response_format)
    if wanted is not None and grammar is not None:
        raise invalid_value("x.response_format", "text.format has the answer's format already")
    return wanted or grammar


def read_text_format(wanted: TextFormat | None) -> ResponseFormat | None:
    """OpenAI's format as ours; None: plain text. Raises ApiError without a schema."""
    match wanted:
        case None | TextFormat(type="text"):
            return None
        case TextFormat(type="json_object"):
            return ResponseFormat("json_object")
        case TextFormat(schema=None):
            raise missing("text.format.schema")
        case _:
            return ResponseFormat("json_schema", json.dumps(wanted.schema, ensure_ascii=False))


def _arguments(
    event_id: str | None,
    on_busy: str | None,
    metadata: Mapping[str, str] | None,
    detach_s: float | None,
) -> dict[str, Any]:
    arguments: dict[str, Any] = {"metadata": metadata or {}}
    if event_id is not None:
        arguments["event"] = EventKey(event_id)
    if on_busy is not None:
        arguments["on_busy"] = on_busy
    if detach_s is not None:
        arguments["detach_s"] = detach_s
    return arguments


def _sampling(extras: Sampling | None) -> dict[str, Any]:
    """The extras under ResponseOptions' names, without those that are not there."""
    if extras is None:
        return {}
    stop = extras.stop
    values: dict[str, Any] = {
        name: getattr(extras, name)
        for name in (
            "top_k",
            "min_p",
            "typical_p",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "dry_multiplier",
            "dry_base",
            "dry_allowed_length",
            "bad_words",
            "seed",
            "min_output_tokens",
            "ignore_eos",
            "speculate",
            "timeout_s",
            "priority",
        )
    }
    values["stop"] = (stop,) if isinstance(stop, str) else stop
    values["logit_bias"] = read_logit_bias(extras.logit_bias)
    return {name: value for name, value in values.items() if value is not None}
