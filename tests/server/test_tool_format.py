"""What an answer that may call functions has to look like, as grammar over a real vocabulary."""

from __future__ import annotations

import json
from typing import Any

import pytest

from radixchat.engine.errors import InvalidRequest
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.response_options import ResponseFormat
from radixchat.server.tool import Tool, ToolUse
from radixchat.server.tool_format import tool_format
from radixchat.server.tool_text import ToolText
from radixchat.tests.engine.grammar_model import Model
from radixchat.tests.engine.vocabularies import byte_level_fields

CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}, "unit": {"$ref": "#/$defs/unit"}},
    "required": ["city"],
    "$defs": {"unit": {"enum": ["c", "f"]}},
}
WEATHER = (
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "unit": "c"}}\n</tool_call>'
)
NOOP = '<tool_call>\n{"name": "no-op", "arguments": {}}\n</tool_call>'
UNKNOWN_CITY = WEATHER.replace("Rome", "Bonn")
UNKNOWN_FIELD = WEATHER.replace("unit", "units")
BROKEN = "Hi <tool_call>\nno"


def tool(name: str, strict: bool = False, **function: Any) -> Tool:
    given = {"name": name, "strict": strict, **function}
    return Tool.of({"type": "function", "function": given})


TOOLS = (tool("weather", parameters=CITY), tool("no-op"))
STRICT = (tool("weather", strict=True, parameters=CITY), tool("no-op"))


@pytest.fixture(scope="module")
def model() -> Model:
    tokenizer = Tokenizer.from_gguf(byte_level_fields())
    return Model(tokenizer, tokenizer.vocab_size)


def is_answer(model: Model, wanted: ResponseFormat | None, text: str) -> bool:
    """Whether the text may be said, token by token, and may end there."""
    assert wanted is not None
    grammar = model.compiler.compile(wanted.kind, wanted.value)
    ids = model.tokenizer.encode(text)
    if grammar.valid_prefix(ids) < len(ids):
        return False
    for token in ids:
        grammar.accept(token)
    return bool(model.tokenizer.stop_ids.intersection(model.allowed(grammar)))


@pytest.mark.parametrize(
    ("use", "said", "unsaid"),
    [
        (
            ToolUse(TOOLS, "required"),
            [WEATHER, NOOP, f"{WEATHER}\n{NOOP}", f"{NOOP}\n{NOOP}\n{WEATHER}"],
            ["Hi", f"Hi\n{NOOP}", f"{NOOP} bye", UNKNOWN_CITY, UNKNOWN_FIELD, BROKEN, ""],
        ),
        (ToolUse(TOOLS, "required", parallel=False), [WEATHER, NOOP], [f"{NOOP}\n{NOOP}"]),
        (ToolUse(TOOLS, "no-op"), [NOOP], [WEATHER, f"{NOOP}\n{NOOP}"]),
        (
            ToolUse(STRICT, "auto"),
            ["Hi there", "a <tool_cal b", f"Hi\n{WEATHER}", WEATHER, f"Hi {NOOP}\n{WEATHER}"],
            [BROKEN, f"Hi {UNKNOWN_CITY}", f"{NOOP} bye"],
        ),
    ],
)
def test_what_may_be_said(model: Model, use: ToolUse, said: list[str], unsaid: list[str]) -> None:
    """Calls of what is offered, with arguments that satisfy the schema, references included."""
    wanted = tool_format(use, None)
    assert [text for text in said if not is_answer(model, wanted, text)] == []
    assert [text for text in unsaid if is_answer(model, wanted, text)] == []


def test_beside_a_json_answer(model: Model) -> None:
    """Either the calls or the answer's own format."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    answer = ResponseFormat("json_schema", json.dumps(schema))
    wanted = tool_format(ToolUse(TOOLS, "auto"), answer)
    assert is_answer(model, wanted, '{"a": 7}')
    assert is_answer(model, wanted, f"{NOOP}\n{WEATHER}")
    assert not is_answer(model, wanted, "Hi")
    assert not is_answer(model, wanted, f'{{"a": 7}}\n{NOOP}')
    with pytest.raises(InvalidRequest, match="'regex'; beside tools"):
        tool_format(ToolUse(TOOLS, "auto"), ResponseFormat("regex", "a+"))


def test_without_need_there_is_no_grammar() -> None:
    """A model that may say anything is left alone; a format of its own is kept."""
    answer = ResponseFormat("json_object")
    assert tool_format(ToolUse(TOOLS, "auto"), None) is None
    assert tool_format(ToolUse(TOOLS, "none"), answer) is answer
    assert tool_format(ToolUse(), None) is None


@pytest.mark.parametrize("seed", range(10))
def test_forced_answers_are_calls(model: Model, seed: int) -> None:
    """Whatever a model likes, the text is read as calls with arguments that are JSON."""
    use = ToolUse((tool("weather", parameters={**CITY, "required": ["city", "unit"]}),), "required")
    wanted = tool_format(use, None)
    assert wanted is not None
    text = ToolText({"weather"}, takes_one=False)
    text.push(model.tokenizer.decode(model.walk(wanted.kind, wanted.value, seed)))
    assert text.finish() == []
    assert text.content == ""
    assert text.calls
    for call in text.calls:
        assert json.loads(call.arguments).keys() == {"city", "unit"}


def test_a_schema_that_cannot_be_used_is_refused(model: Model) -> None:
    """With llguidance's sentence, when the grammar is made."""
    use = ToolUse((tool("f", parameters={"type": "nothing"}),), "required")
    wanted = tool_format(use, None)
    assert wanted is not None
    with pytest.raises(InvalidRequest, match="nothing"):
        model.compiler.compile(wanted.kind, wanted.value)
