"""What an answer that may call functions has to look like: `tool_format`.

Owns when a grammar is needed: where the answer has to be a call, and where a tool is strict or the
answer's text has a format of its own. Otherwise the model is free, and `tool_text.py` finds its
calls. Knows the marks from `tool_prompt.py`; the grammar itself is the engine's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from radixchat.engine.errors import InvalidRequest
from radixchat.server.response_options import ResponseFormat
from radixchat.server.tool import Tool, ToolUse
from radixchat.server.tool_prompt import CALL_BEGIN, CALL_END

_JSON_KINDS = ("json_object", "json_schema")


def tool_format(use: ToolUse, wanted: ResponseFormat | None) -> ResponseFormat | None:
    """The format of the answer; wanted: of its text. Raises InvalidRequest where both cannot be."""
    offered = use.callable
    if not offered:
        return wanted
    if use.is_forced:
        return _format(use, None)
    if wanted is None:
        is_strict = any(tool.strict for tool in offered)
        return _format(use, {"kind": "text"}) if is_strict else None
    if wanted.kind not in _JSON_KINDS:
        raise InvalidRequest(
            f"response_format is {wanted.kind!r}; beside tools, allowed: {', '.join(_JSON_KINDS)}"
        )
    return _format(use, {"kind": wanted.kind, "value": wanted.value})


def _format(use: ToolUse, otherwise: Mapping[str, str] | None) -> ResponseFormat:
    value = {
        "tools": [{"name": tool.name, "parameters": _parameters(tool)} for tool in use.callable],
        "begin": CALL_BEGIN,
        "end": CALL_END,
        "many": not use.takes_one,
        "otherwise": otherwise,
    }
    return ResponseFormat("tool_calls", json.dumps(value, ensure_ascii=False))


def _parameters(tool: Tool) -> dict[str, Any]:
    """The schema, without arguments that it does not name, unless it says that there may be some.

    A function that is called with others fails; a schema seldom says so.
    """
    parameters = dict(tool.parameters)
    if "properties" in parameters:
        parameters.setdefault("additionalProperties", False)
    return parameters
