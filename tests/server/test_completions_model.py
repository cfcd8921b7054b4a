"""What the default model makes of tools and schemas, through the stateless answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from radixchat.engine.prompt import ChatMessage
from radixchat.server.host import ChatHost
from radixchat.server.local import LocalSettings
from radixchat.server.response_options import ResponseFormat, ResponseOptions
from radixchat.server.tool import Tool, ToolUse
from radixchat.server.tool_format import tool_format
from radixchat.tests.server.test_completions import answer, completions_of, user, with_host

pytestmark = [pytest.mark.slow, pytest.mark.model]

GREEDY = ResponseOptions(temperature=0, max_output_tokens=80)


def function(name: str, **properties: object) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool.of({"type": "function", "function": {"name": name, "parameters": schema}})


TOOLS = (
    function("get_weather", city={"type": "string"}),
    function("add", a={"type": "integer"}, b={"type": "integer"}),
)


def test_tools_and_schemas(default_model: Path, settings: LocalSettings) -> None:
    """Its calls and answers parse, are about what was asked, and cost what is new."""

    async def body(host: ChatHost) -> None:
        completions = completions_of(host)
        question = user("What is the weather like in Paris?")
        use = ToolUse(TOOLS, "required", parallel=False)
        options = replace(GREEDY, response_format=tool_format(use, None))
        called = await answer(completions, question, use=use, options=options)
        (call,) = called.message.tool_calls
        assert call.name == "get_weather"
        assert "Paris" in json.loads(call.arguments)["city"]
        result = ChatMessage("tool", "21 degrees and sunny", tool_call_id=call.id)
        auto = ToolUse(TOOLS, "auto")
        after = await answer(completions, question, called.message, result, use=auto)
        known = (*called.sample.prompt_ids, *called.sample.answer_ids)
        assert after.sample.usage.cached_tokens == len(known)
        assert after.sample.prompt_ids[: len(known)] == known
        assert after.message.content

        schema = {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            "required": ["name", "age"],
            "additionalProperties": False,
        }
        bound = replace(GREEDY, response_format=ResponseFormat("json_schema", json.dumps(schema)))
        told = await answer(completions, user("Ada is 36. Who is it, as JSON?"), options=bound)
        assert json.loads(told.message.content) == {"name": "Ada", "age": 36}

    with_host(body, replace(settings, model=str(default_model)))
