"""What a stateless request asks: OpenAI's fields as ours, and the refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from radixchat.engine.prompt import ChatMessage, ToolCall
from radixchat.server.api_error import ApiError
from radixchat.server.chat_ask import ChatAsk, TextAsk, read_chat, read_text
from radixchat.server.decode import decode_body
from radixchat.server.response_options import ResponseFormat
from radixchat.server.wire_chat_request import ChatCompletionRequest
from radixchat.server.wire_text_completion import CompletionRequest

HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}

OURS = ("max_output_tokens", "min_output_tokens")
# More levels than a template can be shown.
DEEP_CALL = {"function": {"name": "f", "arguments": '{"a":' + "[" * 600 + "]" * 600 + "}"}}


def chat(**body: Any) -> ChatAsk:
    return read_chat(decode_body(ChatCompletionRequest, json.dumps(body).encode()))


def text(**body: Any) -> TextAsk:
    return read_text(decode_body(CompletionRequest, json.dumps(body).encode()))


def test_messages_as_they_are() -> None:
    """Parts are joined; a developer is the system; calls and results keep their names."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    ask = chat(
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": t} for t in ("a", "b")]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
            {"role": "user", "content": "", "name": "ada"},
        ]
    )
    assert ask.messages == (
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "ab"),
        ChatMessage("assistant", "", (ToolCall("c1", "f", "{}"),)),
        ChatMessage("tool", "42", tool_call_id="c1"),
        ChatMessage("user", ""),
    )


def test_options_under_all_their_names() -> None:
    """OpenAI's, this program's own and, of one, other servers'."""
    ask = chat(
        messages=HELLO,
        max_completion_tokens=9,
        temperature=0,
        top_p=0.5,
        stop=["x", "y"],
        seed=3,
        logit_bias={"7": -100},
        presence_penalty=1,
        frequency_penalty=0.5,
        logprobs=True,
        top_logprobs=4,
        n=3,
        top_k=5,
        min_p=0.1,
        min_tokens=2,
        ignore_eos=True,
        response_format={"type": "json_object"},
    )
    options = ask.options
    assert (options.max_output_tokens, options.min_output_tokens, ask.n) == (9, 2, 3)
    assert (options.temperature, options.top_p, options.top_k, options.min_p) == (0, 0.5, 5, 0.1)
    assert (options.stop, options.seed, options.logit_bias) == (("x", "y"), 3, ((7, -100),))
    assert (options.presence_penalty, options.frequency_penalty) == (1, 0.5)
    assert (options.top_logprobs, options.ignore_eos) == (4, True)
    assert options.response_format == ResponseFormat("json_object")


def test_formats() -> None:
    """OpenAI's and ours; text is none."""
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "null"}}}
    ours = {"kind": "regex", "value": "a+"}
    wanted = [
        chat(messages=HELLO, response_format=given).options.response_format
        for given in ({"type": "text"}, schema, ours)
    ]
    assert wanted == [
        None,
        ResponseFormat("json_schema", '{"type": "null"}'),
        ResponseFormat("regex", "a+"),
    ]


def test_tools_and_their_choice() -> None:
    """With tools the model decides, unless something else is said; without, there is no choice."""
    assert chat(messages=HELLO).use.choice == "none"
    assert chat(messages=HELLO, tool_choice="auto").use.choice == "none"
    assert chat(messages=HELLO, tools=[TOOL]).use.choice == "auto"
    assert chat(messages=HELLO, tools=[TOOL]).options.response_format is None
    named = {"type": "function", "function": {"name": "f"}}
    forced = chat(messages=HELLO, tools=[TOOL], tool_choice=named)
    assert forced.use.choice == "f"
    assert forced.options.response_format is not None
    assert forced.options.response_format.kind == "tool_calls"
    assert not chat(messages=HELLO, tools=[TOOL], parallel_tool_calls=False).use.parallel


def test_no_call_where_none_is_wanted() -> None:
    """The prompt tells of the tools all the same, so it is the same prompt."""
    ask = chat(messages=HELLO, tools=[TOOL], tool_choice="none")
    assert ask.use.callable == ()
    assert ask.use.definitions == chat(messages=HELLO, tools=[TOOL]).use.definitions


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"messages": []}, "invalid_value", "messages"),
        ({"messages": [{"role": "bot", "content": ""}]}, "invalid_value", "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "missing_required_parameter", "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "unsupported_parameter",
            "messages[0].content[0].type",
        ),
        ({"messages": HELLO, "top_logprobs": 3}, "invalid_value", "top_logprobs"),
        ({"messages": HELLO, "n": 0}, "invalid_value", "n"),
        ({"messages": HELLO, "n": 99}, "invalid_value", "n"),
        (
            {"messages": HELLO, "max_tokens": 3, "max_completion_tokens": 4},
            "invalid_value",
            "max_tokens",
        ),
        ({"messages": HELLO, "functions": [{}]}, "unsupported_parameter", "functions"),
        ({"messages": HELLO, "audio": {}}, "unsupported_parameter", "audio"),
        ({"messages": HELLO, "modalities": ["audio"]}, "unsupported_parameter", "modalities"),
        ({"messages": HELLO, "tool_choice": "required"}, "invalid_value", "tool_choice"),
        ({"messages": HELLO, "max_tokens": 0}, "invalid_value", "max_tokens"),
        ({"messages": HELLO, "tool_choice": {"type": "x"}}, "invalid_value", "tool_choice.type"),
        (
            {"messages": HELLO, "response_format": {"type": "xml"}},
            "invalid_value",
            "response_format.type",
        ),
        (
            {"messages": HELLO, "max_completion_tokens": -1},
            "invalid_value",
            "max_completion_tokens",
        ),
        ({"messages": HELLO, "max_tokens": 1, "min_tokens": 2}, "invalid_value", "min_tokens"),
        (
            {"messages": HELLO, "logprobs": True, "top_logprobs": 21},
            "invalid_value",
            "top_logprobs",
        ),
        ({"messages": HELLO, "tools": [{}]}, "invalid_value", "tools"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [DEEP_CALL]}]},
            "invalid_value",
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"messages": HELLO, "tools": [TOOL, TOOL]}, "invalid_value", "tools"),
        (
            {"messages": HELLO, "tools": [TOOL], "tool_choice": {"function": {"name": "g"}}},
            "invalid_value",
            "tool_choice",
        ),
        (
            {"messages": HELLO, "response_format": {"type": "json_schema"}},
            "missing_required_parameter",
            "response_format.json_schema.schema",
        ),
        (
            {
                "messages": HELLO,
                "tools": [TOOL],
                "response_format": {"kind": "regex", "value": "a"},
            },
            "invalid_value",
            "response_format",
        ),
    ],
)
def test_a_chat_that_cannot_be_is_refused(body: dict[str, Any], code: str, param: str) -> None:
    """With OpenAI's code and the field's place."""
    with pytest.raises(ApiError) as refusal:
        chat(**body)
    assert (refusal.value.code, refusal.value.param) == (code, param)
    assert not any(name in refusal.value.message for name in OURS)
    assert refusal.value.status == 400


def test_prompts_in_every_form() -> None:
    """One or several, of text or of tokens."""
    given = ["ab", ["ab", "c"], [1, 2], [[1, 2], [3]]]
    assert [text(prompt=prompt).prompts for prompt in given] == [
        ("ab",),
        ("ab", "c"),
        ((1, 2),),
        ((1, 2), (3,)),
    ]


def test_how_prompts_are_gone_on_with() -> None:
    """OpenAI's defaults; nothing but the prompt may be asked for."""
    ask = text(prompt="a")
    assert (ask.options.max_output_tokens, ask.n, ask.echo) == (16, 1, False)
    ask = text(prompt="a", max_tokens=0, echo=True, logprobs=2)
    assert (ask.options.max_output_tokens, ask.is_only_prompt, ask.prompt_logprobs) == (1, True, 2)
    assert text(prompt="a", logprobs=2).prompt_logprobs is None
    assert text(prompt="a", n=2, best_of=2).n == 2


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": "a", "suffix": "b"}, "suffix"),
        ({"prompt": "a", "best_of": 4}, "best_of"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "max_tokens": -1}, "max_tokens"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [-1]}, "prompt[0]"),
        ({"prompt": "a", "n": 17}, "n"),
        ({}, "prompt"),
    ],
)
def test_a_prompt_that_cannot_be_is_refused(body: dict[str, Any], param: str) -> None:
    """With the field's name."""
    with pytest.raises(ApiError) as refusal:
        text(**body)
    assert refusal.value.param == param
