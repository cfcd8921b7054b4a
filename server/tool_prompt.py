"""Tools in a prompt whose template has none of its own: in plain text, as Hermes models have them.

    system      what the client said, then the functions and how to call one
    assistant   <tool_call>\\n{"name": ..., "arguments": {...}}\\n</tool_call>
    user        <tool_response>\\n...\\n</tool_response>

The format is the commonest: Qwen's templates write the same, and models that were tuned for it know
it under any template. Knows no tokens and no template.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from radixchat.engine.prompt import ChatMessage, ToolCall

CALL_BEGIN, CALL_END = "<tool_call>", "</tool_call>"

_HEAD = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
"""
_TAIL = """
</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""


@dataclass(frozen=True, slots=True)
class PlainChat:
    """Messages without tools; places: where each of the given ones is among them."""

    messages: tuple[ChatMessage, ...]
    places: tuple[int, ...]


def plain_chat(
    messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]], *, takes_system: bool
) -> PlainChat:
    """The chat with everything about tools written out.

    takes_system: whether the template has system messages; without, the first question begins with
    what would be one.
    """
    plain, places = _written_out(messages)
    if not tools:
        return PlainChat(tuple(plain), tuple(places))
    has_system = bool(plain) and plain[0].role == "system"
    said = plain[0].content if has_system else ""
    told = f"{said}\n\n{_told(tools)}" if said else _told(tools)
    head, rest = [ChatMessage("system", told)], plain[int(has_system) :]
    if not takes_system:
        question = rest.pop(0).content if rest and rest[0].role == "user" else ""
        head = [ChatMessage("user", f"{told}\n\n{question}".strip())]
    shift = len(head) + len(rest) - len(plain)
    return PlainChat((*head, *rest), tuple(max(0, place + shift) for place in places))


def _written_out(messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], list[int]]:
    """Calls and results as text; results that follow each other are one message."""
    plain: list[ChatMessage] = []
    places: list[int] = []
    after_result = False
    for message in messages:
        is_result = message.role == "tool"
        if is_result and after_result:
            said = f"{plain[-1].content}\n{_response(message.content)}"
            plain[-1] = replace(plain[-1], content=said)
        else:
            plain.append(_written(message))
        after_result = is_result
        places.append(len(plain) - 1)
    return plain, places


def written_call(call: ToolCall) -> str:
    """A call as an answer has it."""
    arguments = call.arguments.strip() or "{}"
    return (
        f'{CALL_BEGIN}\n{{"name": {json.dumps(call.name)}, "arguments": {arguments}}}\n{CALL_END}'
    )


def _written(message: ChatMessage) -> ChatMessage:
    if message.role == "tool":
        return ChatMessage("user", _response(message.content))
    if not message.tool_calls:
        return message
    parts = [message.content] if message.content else []
    return ChatMessage(message.role, "\n".join([*parts, *map(written_call, message.tool_calls)]))


def _response(content: str) -> str:
    return f"<tool_response>\n{content}\n</tool_response>"


def _told(tools: Sequence[Mapping[str, Any]]) -> str:
    return _HEAD + "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools) + _TAIL
