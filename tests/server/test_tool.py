"""Tools as a client defines them: what is taken, and what is refused with a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from radixchat.engine.errors import InvalidRequest
from radixchat.server.tool import MAX_TOOLS, NO_PARAMETERS, Tool, ToolUse


def definition(name: str = "f", **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


def test_a_definition_is_kept_as_it_is_written() -> None:
    """With what nobody here knows; what is beside the function is not the model's business."""
    given = definition(description="d", parameters={"type": "object"}, strict=True, more=[1])
    tool = Tool.of({**given, "cache_control": {}})
    assert tool.definition == given
    assert tool.strict
    assert tool.parameters == {"type": "object"}
    assert Tool.of(definition()).parameters == NO_PARAMETERS


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"type": "web_search"}, "web_search"),
        ({"type": "function"}, "`name`"),
        ({"type": "function", "function": {"name": 3}}, "`name`"),
        (definition("a b"), "'a b'"),
        (definition(""), "''"),
        (definition("x" * 65), "64"),
        (definition(parameters=[]), "schema"),
        (definition(description=3), "description"),
    ],
)
def test_what_is_no_function_is_refused(given: dict[str, Any], what: str) -> None:
    """The sentence has the value, or what is missing."""
    with pytest.raises(InvalidRequest, match=what):
        Tool.of(given)


def test_what_an_answer_may_call() -> None:
    """By the choice."""
    tools = (Tool.of(definition("f")), Tool.of(definition("g")))
    offered = {choice: ToolUse(tools, choice) for choice in ("none", "auto", "required", "g")}
    called = {choice: [t.name for t in use.callable] for choice, use in offered.items()}
    assert called == {"none": [], "auto": ["f", "g"], "required": ["f", "g"], "g": ["g"]}
    assert [use.is_forced for use in offered.values()] == [False, False, True, True]
    assert [use.takes_one for use in offered.values()] == [True, False, False, True]
    assert ToolUse(tools, "auto", parallel=False).takes_one
    assert not ToolUse().is_forced


@pytest.mark.parametrize(
    ("names", "choice", "what"),
    [
        (["f"], "h", "tool_choice is 'h'"),
        ([], "required", "no tools"),
        (["f", "g", "f"], "auto", "2 tools named 'f'"),
        ([f"f{n}" for n in range(MAX_TOOLS + 1)], "auto", "129 tools"),
    ],
)
def test_what_cannot_be_is_refused(names: list[str], choice: str, what: str) -> None:
    """With the numbers and names."""
    with pytest.raises(InvalidRequest, match=what):
        ToolUse(tuple(Tool.of(definition(name)) for name in names), choice)


def test_definitions_are_bounded() -> None:
    """In characters, all together."""
    with pytest.raises(InvalidRequest, match="allowed: at most"):
        ToolUse((Tool.of(definition(description="x" * (1 << 18))),), "auto")
