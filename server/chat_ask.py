"""What a stateless request asks: `ChatAsk`, `TextAsk`, and how the bodies are read.

Owns the meaning of the wire's fields and the sentences that refuse what this server does not have.
Knows no prompt; the numbers' ranges are `ResponseOptions`' and the engine's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from radixchat.engine.errors import InvalidRequest
from radixchat.engine.prompt import ChatMessage, ToolCall
from radixchat.server.api_error import ApiError, invalid_value, missing, unsupported
from radixchat.server.decode import MAX_DEPTH, json_depth
from radixchat.server.input_messages import content_text
from radixchat.server.response_ask import read_grammar, read_options
from radixchat.server.response_options import ResponseFormat, ResponseOptions
from radixchat.server.tool import Tool, ToolUse
from radixchat.server.tool_format import tool_format
from radixchat.server.wire_chat_request import (
    ChatCompletionRequest,
    ChatFormat,
    ChatMessageParam,
    CompletionSampling,
    MessageToolCall,
    NamedTool,
)
from radixchat.server.wire_text_completion import CompletionRequest

DEFAULT_TEXT_TOKENS = 16  # OpenAI's, of text completions
_ROLES: Mapping[str, str] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",  # OpenAI's newer name of it
    "tool": "tool",
}
# What else a body may call an option.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "max_output_tokens": ("max_completion_tokens", "max_tokens"),
    "min_output_tokens": ("min_output_tokens", "min_tokens"),
    "top_logprobs": ("top_logprobs", "logprobs"),
}


@dataclass(frozen=True, slots=True)
class ChatAsk:
    """A chat to be answered n times."""

    messages: tuple[ChatMessage, ...]
    options: ResponseOptions
    use: ToolUse = ToolUse()  # noqa: RUF009  # it is frozen
    n: int = 1


@dataclass(frozen=True, slots=True)
class TextAsk:
    """Prompts to be gone on with, n times each.

    echo: the prompt's text comes first. prompt_logprobs: of the prompts' tokens, with so many
    alternatives. is_only_prompt: what is sampled is not asked for.
    """

    prompts: tuple[str | tuple[int, ...], ...]
    options: ResponseOptions
    n: int = 1
    echo: bool = False
    prompt_logprobs: int | None = None
    is_only_prompt: bool = False


def read_chat(body: ChatCompletionRequest) -> ChatAsk:
    """A chat from its body. Raises ApiError with the field's name and what would do."""
    _refuse_unsupported(body)
    use = read_tools(body)
    options = _options(
        body,
        max_output_tokens=_either(body, "max_completion_tokens", "max_tokens"),
        top_logprobs=_top_logprobs(body),
    )
    try:
        options = replace(options, response_format=tool_format(use, options.response_format))
    except InvalidRequest as error:
        raise invalid_value("response_format", str(error)) from error
    return ChatAsk(read_messages(body.messages), options, use, body.n or 1)


def read_text(body: CompletionRequest) -> TextAsk:
    """Prompts from their body. Raises ApiError."""
    if body.suffix:
        raise unsupported("suffix", "suffix is not supported: the models here only go on")
    n = body.n or 1
    if body.best_of not in (None, n):
        raise unsupported("best_of", f"best_of is {body.best_of}; it can only be n, {n}")
    only_prompt = body.max_tokens == 0
    if only_prompt and not body.echo:
        raise invalid_value("max_tokens", "max_tokens is 0; allowed with echo only, else 1 or more")
    most = DEFAULT_TEXT_TOKENS if body.max_tokens is None else body.max_tokens or 1
    options = _options(body, max_output_tokens=most, top_logprobs=body.logprobs)
    return TextAsk(
        prompts=_prompts(body.prompt),
        options=options,
        n=n,
        echo=bool(body.echo),
        prompt_logprobs=body.logprobs if body.echo else None,
        is_only_prompt=only_prompt,
    )


def read_messages(given: Sequence[ChatMessageParam]) -> tuple[ChatMessage, ...]:
    """The messages. Raises ApiError with the place of what cannot be."""
    if not given:
        raise invalid_value("messages", "messages is an empty list; send at least one")
    return tuple(_message(f"messages[{place}]", message) for place, message in enumerate(given))


def read_tools(body: ChatCompletionRequest) -> ToolUse:
    """The tools and what is done with them. Raises ApiError."""
    tools, choice = read_offered(body.tools).tools, body.tool_choice
    if isinstance(choice, NamedTool):
        name = choice.function.name
        if name in ("none", "auto", "required"):
            raise invalid_value("tool_choice", f"a tool cannot be named {name!r} and be chosen")
    else:
        name = choice or ("auto" if tools else "none")
        name = "none" if name == "auto" and not tools else name
    try:
        return ToolUse(tools, name, body.parallel_tool_calls is not False)
    except InvalidRequest as error:
        raise invalid_value("tool_choice", str(error)) from error


def read_offered(given: Sequence[Mapping[str, Any]] | None) -> ToolUse:
    """The tools that a prompt tells of. Raises ApiError."""
    try:
        return ToolUse(tuple(map(Tool.of, given or ())))
    except InvalidRequest as error:
        raise invalid_value("tools", str(error)) from error


def _message(place: str, message: ChatMessageParam) -> ChatMessage:
    role = _ROLES.get(message.role)
    if role is None:
        allowed = ", ".join(_ROLES)
        raise invalid_value(f"{place}.role", f"role is {message.role!r:.80}; allowed: {allowed}")
    calls = tuple(
        _call(f"{place}.tool_calls[{number}]", call)
        for number, call in enumerate(message.tool_calls or ())
    )
    if calls and role != "assistant":
        raise invalid_value(f"{place}.tool_calls", "only an assistant's message has tool_calls")
    if message.content is None and role != "assistant":
        raise missing(f"{place}.content")
    content = content_text(f"{place}.content", message.content or "")
    return ChatMessage(role, content, calls, message.tool_call_id if role == "tool" else None)


def _call(place: str, call: MessageToolCall) -> ToolCall:
    """Templates read the arguments: they are bounded as the JSON around them is."""
    function = call.function
    if (depth := json_depth(function.arguments.encode())) > MAX_DEPTH:
        why = f"the arguments have {depth} levels of arrays and objects; allowed: {MAX_DEPTH}"
        raise invalid_value(f"{place}.function.arguments", why)
    return ToolCall(call.id, function.name, function.arguments)


def _options(body: CompletionSampling, **given: Any) -> ResponseOptions:
    """Refusals say the names that the body has."""
    given |= {
        "temperature": body.temperature,
        "top_p": body.top_p,
        "min_output_tokens": _either(body, "min_output_tokens", "min_tokens"),
        "response_format": _format(body),
    }
    try:
        return read_options(body, **given)
    except ApiError as refusal:
        message, param = refusal.message, str(refusal.param)
        for option, fields in _FIELDS.items():
            said = next((name for name in fields if getattr(body, name, None) is not None), option)
            message = message.replace(option, said)
            param = said if param == option else param
        raise invalid_value(param, message) from refusal


def _format(body: CompletionSampling) -> ResponseFormat | None:
    wanted = body.response_format
    if not isinstance(wanted, ChatFormat):
        return read_grammar(wanted)
    if wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return ResponseFormat("json_object")
    if wanted.json_schema is None or wanted.json_schema.schema is None:
        raise missing("response_format.json_schema.schema")
    return ResponseFormat("json_schema", json.dumps(wanted.json_schema.schema, ensure_ascii=False))


def _either(body: object, name: str, other: str) -> Any:
    """The one of two fields that is given. Raises ApiError where both are, and differ."""
    first, second = getattr(body, name), getattr(body, other)
    if first is not None and second is not None and first != second:
        raise invalid_value(other, f"{other} is {second}, and {name} is {first}; give one of them")
    return second if first is None else first


def _top_logprobs(body: ChatCompletionRequest) -> int | None:
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs:
        raise invalid_value("top_logprobs", "top_logprobs needs logprobs: true")
    return None


def _prompts(
    prompt: str | tuple[int, ...] | tuple[str, ...] | tuple[tuple[int, ...], ...],
) -> tuple[str | tuple[int, ...], ...]:
    """One prompt is a list of one; a list of ids is one prompt."""
    if isinstance(prompt, str):
        return (prompt,)
    ids = tuple(element for element in prompt if isinstance(element, int))
    if ids:
        return (ids,)
    return tuple(element for element in prompt if not isinstance(element, int))


def _refuse_unsupported(body: ChatCompletionRequest) -> None:
    refused: tuple[tuple[str, bool, str], ...] = (
        ("audio", body.audio is not None, "the models here read and write text"),
        ("modalities", body.modalities not in (None, ("text",)), "the answers here are text"),
        ("web_search_options", body.web_search_options is not None, "nothing is searched"),
        ("functions", bool(body.functions), "use tools, which have taken their place"),
        ("function_call", body.function_call is not None, "use tool_choice"),
    )
    for param, is_asked, why in refused:
        if is_asked:
            raise unsupported(param, f"{param} is not supported: {why}")
