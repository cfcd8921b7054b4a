"""The functions that a client offers to a model: `Tool`, `ToolUse`. Values, checked when made.

Knows neither how a prompt tells of them nor how an answer calls one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from radixchat.engine.errors import InvalidRequest

MAX_TOOLS = 128
MAX_TOOL_CHARACTERS = 1 << 18  # of all definitions, as JSON
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NO_PARAMETERS: Mapping[str, Any] = MappingProxyType({"type": "object", "properties": {}})


@dataclass(frozen=True, slots=True)
class Tool:
    """One function. parameters: the JSON schema of its arguments.

    definition: as the client wrote it, for the prompt. strict: its arguments satisfy the schema
    even where the model chooses whether to call it.
    """

    name: str
    definition: Mapping[str, Any]
    parameters: Mapping[str, Any] = field(default_factory=lambda: NO_PARAMETERS)
    strict: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidRequest(
                f"a tool's name is {self.name[:80]!r}; allowed: 1 to 64 letters, digits, '_', "
                "'-' and '.'"
            )

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> Tool:
        """From an element of `tools`. Raises InvalidRequest, which says what is wrong."""
        if definition.get("type", "function") != "function":
            raise InvalidRequest(
                f"a tool's type is {str(definition['type'])[:80]!r}; allowed: function"
            )
        function = definition.get("function")
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise InvalidRequest("a tool has a `function` with a `name`")
        name = function["name"]
        parameters = function.get("parameters")
        if parameters is not None and not isinstance(parameters, Mapping):
            raise InvalidRequest(
                f"the parameters of tool {name[:64]!r} are a JSON schema, an object"
            )
        if not isinstance(function.get("description", ""), str | None):
            raise InvalidRequest(f"the description of tool {name[:64]!r} is a text")
        plain = {"type": "function", "function": dict(function)}
        return cls(name, plain, parameters or NO_PARAMETERS, function.get("strict") is True)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools of one question, and what the answer does with them.

    choice: "none", "auto" (the model decides), "required" (at least one call) or the name of the
    one tool that is called. parallel: whether there may be several calls.
    """

    tools: tuple[Tool, ...] = ()
    choice: str = "none"
    parallel: bool = True

    def __post_init__(self) -> None:
        if len(self.tools) > MAX_TOOLS:
            raise InvalidRequest(f"there are {len(self.tools)} tools; allowed: at most {MAX_TOOLS}")
        names = [tool.name for tool in self.tools]
        for name in names:
            if names.count(name) > 1:
                raise InvalidRequest(f"there are {names.count(name)} tools named {name!r}")
        size = sum(len(json.dumps(tool.definition)) for tool in self.tools)
        if size > MAX_TOOL_CHARACTERS:
            raise InvalidRequest(
                f"the tools have {size} characters; allowed: at most {MAX_TOOL_CHARACTERS}"
            )
        if self.choice not in ("none", "auto", "required", *names):
            raise InvalidRequest(
                f"tool_choice is {self.choice[:80]!r}; allowed: none, auto, required or one of "
                f"the tools: {', '.join(names)[:400] or 'there are none'}"
            )
        if self.choice == "required" and not names:
            raise InvalidRequest("tool_choice is 'required', but there are no tools")

    @property
    def definitions(self) -> list[Mapping[str, Any]]:
        """What a prompt tells of them."""
        return [tool.definition for tool in self.tools]

    @property
    def callable(self) -> tuple[Tool, ...]:
        """The tools that the answer may call."""
        if self.choice == "none":
            return ()
        if self.choice in ("auto", "required"):
            return self.tools
        return tuple(tool for tool in self.tools if tool.name == self.choice)

    @property
    def is_forced(self) -> bool:
        """Whether the answer is nothing but calls."""
        return bool(self.tools) and self.choice not in ("none", "auto")

    @property
    def takes_one(self) -> bool:
        """Whether there is at most one call."""
        return not self.parallel or self.choice not in ("auto", "required")
