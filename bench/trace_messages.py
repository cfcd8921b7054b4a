"""The messages of one chat, from OpenAI's form or ShareGPT's.

    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
    {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}

`content` is text, or OpenAI's list of parts, which must be text; null is no text, of the assistant
and of tools only. It may be left out beside `tool_calls`, which are their JSON, after the text.
Owns these forms; knows no token.
"""

from __future__ import annotations

import json
from typing import Any

from radixchat.bench.trace_line import TraceLine, shown
from radixchat.engine.prompt import ChatMessage

_MAY_BE_NULL = ("assistant", "tool")
CHAT_FIELDS = ("messages", "conversations")

ROLES = {role: role for role in ("system", "developer", "user", "assistant", "tool")} | {
    "function": "tool"
}
SHAREGPT_ROLES = ROLES | {
    "human": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "observation": "tool",
}


def chat_messages(line: TraceLine) -> list[ChatMessage]:
    """The messages of a line. Raises TraceError for a message that is none."""
    name = line.first_of(CHAT_FIELDS) or "messages"
    return [
        _message(line, f"{name}[{index}]", value) for index, value in enumerate(line.array(name))
    ]


def _message(line: TraceLine, where: str, value: Any) -> ChatMessage:
    if not isinstance(value, dict):
        raise line.error(f"{where} is {shown(value)}; an object with role and content is needed")
    if "from" in value and "role" not in value:
        role_name, content_name, roles = "from", "value", SHAREGPT_ROLES
    else:
        role_name, content_name, roles = "role", "content", ROLES
    role = value.get(role_name)
    if not isinstance(role, str) or role not in roles:
        raise line.error(f"{where}.{role_name} is {shown(role)}; one of {', '.join(roles)}")
    calls = value.get("tool_calls")
    content = value.get(content_name)
    nullable = content_name in value and roles[role] in _MAY_BE_NULL
    if content is None and calls is None and not nullable:
        raise line.error(
            f"{where}.{content_name} is missing, its fields are {shown(', '.join(value))}; text or"
            " a list of parts is needed"
        )
    text = _text(line, f"{where}.{content_name}", content)
    try:
        if calls is not None:
            text += json.dumps(calls, ensure_ascii=False, separators=(",", ":"))
        text.encode()
    except RecursionError:
        raise line.error(f"{where}.tool_calls is nested too deeply") from None
    except UnicodeEncodeError as error:
        raise line.error(
            f"{where} is not Unicode: half a surrogate pair at character {error.start}"
        ) from None
    return ChatMessage(roles[role], text)


def _text(line: TraceLine, where: str, content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise line.error(f"{where} is {shown(content)}; text or a list of parts is needed")
    texts = []
    for index, part in enumerate(content):
        text = part.get("text") if isinstance(part, dict) else part
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, dict) else None
            raise line.error(
                f"{where}[{index}] is {shown(part)}, type {shown(kind)}; only text has tokens: "
                "leave such chats out"
            )
        texts.append(text)
    return "".join(texts)
