"""Messages and tools as a chat template may see them: their shape, and not their text.

Owns what stays visible: the marks that templates act upon, and the words of a JSON schema. Knows no
template; `content_mask.py` exchanges the characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from radixchat.engine.content_mask import ContentMask
from radixchat.engine.errors import InvalidRequest
from radixchat.engine.prompt import ChatMessage, ToolCall

ROLES = ("system", "developer", "user", "assistant", "tool")

# What templates look for in a message and act upon. Everything else in a message is hidden from
# the template; these stay visible in the roles where they are a feature. In a user's message
# they are text.
_KEEP: Mapping[str, re.Pattern[str]] = {
    "assistant": re.compile(r"(</?think>)"),  # reasoning, cut out of old answers
    "system": re.compile(r"(/no_think|/nothink|/think)"),  # SmolLM3's switches
}

# What JSON escapes: a template writes tools with `tojson`, which has to see it to do so.
_ESCAPED = re.compile(r'(["\\\x00-\x1f]+)')

# The words of a schema that templates look for; every other name is the client's own text.
_SCHEMA_WORDS = frozenset(
    {
        *("type", "function", "name", "description", "parameters", "properties", "required"),
        *("items", "enum", "const", "default", "title", "format", "additionalProperties"),
        *("anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions", "strict", "return"),
    }
)
_SCHEMA_TYPES = frozenset(
    {"function", "object", "array", "string", "number", "integer", "boolean", "null"}
)


def masked_message(message: ChatMessage, mask: ContentMask) -> dict[str, Any]:
    """The message in the form that templates expect. Raises InvalidRequest for another role."""
    if message.role not in ROLES:
        raise InvalidRequest(f"role is {message.role!r}; allowed: {', '.join(ROLES)}")
    content = mask.hide(message.content, _KEEP.get(message.role))
    masked: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        masked["tool_calls"] = [_masked_call(call, mask) for call in message.tool_calls]
    if message.tool_call_id is not None:
        masked["tool_call_id"] = mask.hide(message.tool_call_id)
    return masked


def masked_tools(tools: Sequence[Mapping[str, Any]], mask: ContentMask) -> list[Any]:
    """The definitions of functions, with everything masked but the words of schemas."""
    return [_masked_value(tool, mask) for tool in tools]


def plain_message(message: ChatMessage) -> dict[str, Any]:
    """The message as `apply_chat_template` takes it, unmasked."""
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        plain["tool_calls"] = [
            _call(call.id, call.name, _arguments(call)) for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    return plain


def _masked_call(call: ToolCall, mask: ContentMask) -> dict[str, Any]:
    arguments = _masked_value(_arguments(call), mask, words=frozenset())
    return _call(mask.hide(call.id), mask.hide(call.name), arguments)


def _call(id_: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def _arguments(call: ToolCall) -> dict[str, Any] | str:
    """The arguments as an object; as they are, where a model wrote what is none."""
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments
    return value if isinstance(value, dict) else call.arguments


def _masked_value(
    value: Any, mask: ContentMask, *, words: frozenset[str] = _SCHEMA_WORDS, name: str = ""
) -> Any:
    """name: of the member that it is, for the words that are a type's."""
    if isinstance(value, str):
        is_type = bool(words) and name == "type" and value in _SCHEMA_TYPES
        return value if is_type else mask.hide(value, _ESCAPED)
    if isinstance(value, Mapping):
        return {
            key if key in words else mask.hide(key, _ESCAPED): _masked_value(
                inner, mask, words=words, name=key
            )
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked_value(inner, mask, words=words, name=name) for inner in value]
    return value
