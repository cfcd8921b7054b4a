"""The options of a completion as `ResponseOptions`: OpenAI's names as ours. Knows no prompt."""

from __future__ import annotations

import json

from radixchat.server.api_error import missing, unsupported
from radixchat.server.response_ask import read_options
from radixchat.server.response_options import ResponseFormat, ResponseOptions
from radixchat.server.wire_chat import (
    ChatCompletionRequest,
    ChatFormat,
    CompletionRequestBase,
    JsonSchema,
)
from radixchat.server.wire_completion import CompletionRequest


def chat_options(body: ChatCompletionRequest) -> ResponseOptions:
    """The options of a chat completion. Raises ApiError of what this server does not have."""
    for param, asked in (
        ("functions", body.functions),
        ("function_call", body.function_call),
        ("audio", body.audio),
        ("web_search_options", body.web_search_options),
    ):
        if asked is not None:
            why = "use tools" if param.startswith("function") else "this server's models have text"
            raise unsupported(param, f"{param} is not supported: {why}")
    if any(modality != "text" for modality in body.modalities or ()):
        raise unsupported("modalities", f"modalities is {body.modalities}; only text is supported")
    top_logprobs = (body.top_logprobs or 0) if body.logprobs else None
    most = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    return read_options(
        body,
        **_base(body),
        max_output_tokens=most,
        top_logprobs=top_logprobs,
        response_format=read_chat_format(body.response_format),
    )


def completion_options(body: CompletionRequest) -> ResponseOptions:
    """The options of a plain completion. Raises ApiError of what this server does not have."""
    if body.suffix is not None:
        raise unsupported("suffix", "suffix is not supported: the model only goes on with a text")
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise unsupported("best_of", f"best_of is {body.best_of}; allowed: n, {body.n or 1}")
    return read_options(
        body, **_base(body), max_output_tokens=body.max_tokens, top_logprobs=body.logprobs
    )


def read_chat_format(wanted: ChatFormat | None) -> ResponseFormat | None:
    """What the answer has to be; None: any text. Raises ApiError where the what is missing."""
    match wanted:
        case None | ChatFormat(type="text"):
            return None
        case ChatFormat(type="json_object"):
            return ResponseFormat("json_object")
        case ChatFormat(type="json_schema", json_schema=JsonSchema(schema=schema)) if (
            schema is not None
        ):
            return ResponseFormat("json_schema", json.dumps(schema, ensure_ascii=False))
        case ChatFormat(type="json_schema"):
            raise missing("response_format.json_schema.schema")
        case ChatFormat(value=None):
            raise missing("response_format.value")
        case ChatFormat(type=kind, value=str() as value):
            return ResponseFormat(kind, value)
    raise AssertionError(f"a format of type {wanted!r}")


def _base(body: CompletionRequestBase) -> dict[str, object]:
    return {
        "temperature": body.temperature,
        "top_p": body.top_p,
        "min_output_tokens": body.min_tokens,
        "truncation": body.truncation,
    }
