"""The messages of a chat: the forms that are read, and what is said of others."""

from __future__ import annotations

from typing import Any

import pytest

from radixchat.bench.trace_item import TraceError
from radixchat.bench.trace_messages import chat_messages
from radixchat.tests.bench.traces import trace_lines


def read(line: dict[str, Any]) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in chat_messages(trace_lines(line)[0])]


def test_openai_messages() -> None:
    """Text, parts of text, no text, and tool calls after the text."""
    call = {"id": "1", "function": {"name": "mix", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "Be "}, "brief."]},
        {"role": "user", "content": "Mix.", "name": "someone"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "done", "tool_call_id": "1"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "content": None},
        {"role": "function", "content": ""},
        {"role": "developer", "content": []},
    ]
    assert read({"messages": messages}) == [
        ("system", "Be brief."),
        ("user", "Mix."),
        ("assistant", '[{"id":"1","function":{"name":"mix","arguments":"{}"}}]'),
        ("tool", "done"),
        ("assistant", '[{"id":"1","function":{"name":"mix","arguments":"{}"}}]'),
        ("tool", ""),
        ("tool", ""),
        ("developer", ""),
    ]


def test_sharegpt_conversations() -> None:
    """With the names that ShareGPT and its descendants give the roles."""
    names = ["system", "human", "gpt", "user", "chatgpt", "observation", "bing", "function_call"]
    turns = [{"from": name, "value": name} for name in names]
    roles = [role for role, _ in read({"conversations": turns})]
    assert roles == ["system", "user", "assistant", "user", "assistant", "tool"] + ["assistant"] * 2


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ("Hi", 'messages is "Hi"; a list is needed'),
        (["Hi"], r'messages\[0\] is "Hi"; an object with role and content'),
        ([{"content": "Hi"}], r"messages\[0\].role is missing; one of system, developer, user"),
        ([{"role": "human", "content": "Hi"}], r'messages\[0\].role is "human"; one of'),
        ([{"role": ["user"], "content": "Hi"}], r"messages\[0\].role is a list of 1"),
        ([{"from": "alien", "value": "Hi"}], r'messages\[0\].from is "alien"; one of .*human'),
        (
            [{"role": "assistant", "contents": "Hi"}],
            r'messages\[0\].content is missing, its fields are "role, contents"; text or',
        ),
        ([{"role": "user", "content": None}], r"messages\[0\].content is missing"),
        ([{"from": "gpt"}], r"messages\[0\].value is missing"),
        ([{"role": "user", "content": 7}], r"messages\[0\].content is 7; text or a list"),
        ([{"role": "user", "content": "\udfff"}], r"messages\[0\] is not Unicode: half a sur"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
            r'messages\[0\].content\[0\] is an object of 2, type "image_url"; only text',
        ),
        ([{"role": "user", "content": [5]}], r"messages\[0\].content\[0\] is 5, type missing"),
    ],
)
def test_a_message_that_is_none_is_refused(messages: object, reason: str) -> None:
    """With its place in the line."""
    with pytest.raises(TraceError, match=f"^t.jsonl:1: {reason}"):
        read({"messages": messages})
