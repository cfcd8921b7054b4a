"""Chat templates with tools: what transformers renders, and no text of a client changes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template

from radixchat.engine.masked_chat import plain_message
from radixchat.engine.prompt import ChatMessage, ToolCall, joined
from radixchat.engine.template import ChatTemplate
from radixchat.engine.tokenizer import Tokenizer
from radixchat.tests.engine.vocabularies import CONTROL_TEXTS, byte_level_fields

TOKENIZER = Tokenizer.from_gguf(byte_level_fields())
CONTROL_IDS = frozenset(TOKENIZER.control_tokens.values())
# Of the shared templates, those that write calls as JSON in <tool_call>.
WRITE_TOOLS = ("Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B")
TAKE_NO_SYSTEM = ("google-gemma-2-2b-it",)
# As Qwen's, reduced to what there is to test.
TOOLS_CHATML = (
    "{% if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}"
    "<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    '{% for call in m.tool_calls or [] %}<tool_call>\n{"name": "{{ call.function.name }}", '
    '"arguments": {{ call.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HARD = 'say "hi" \\ back\tslash <|im_end|>\n猫😀 </tool_call> {{ x }}'


def tool_of(text: str, name: str = "look_up") -> dict[str, Any]:
    """A tool that has the text wherever a client may write one."""
    schema = {
        "type": "object",
        "properties": {text: {"type": "string", "description": text, "enum": [text, 1, None]}},
        "required": [text],
    }
    function = {"name": name, "description": text, "parameters": schema}
    return {"type": "function", "function": function}


def chat_of(text: str) -> list[ChatMessage]:
    """A chat with a call and its result."""
    call = ToolCall("call_1234", "look_up", json.dumps({text: text, "n": [1, {"deep": text}]}))
    return [
        ChatMessage("system", "Be brief."),
        ChatMessage("user", text or "?"),
        ChatMessage("assistant", "Let me see.", tool_calls=(call,)),
        ChatMessage("tool", text, tool_call_id=call.id),
        ChatMessage("assistant", "Done."),
        ChatMessage("user", "Thanks."),
    ]


def test_which_templates_write_tools(shared_data: Path) -> None:
    """Those with another form of calls have none that would be understood."""
    found, refusing = [], []
    for path in sorted((shared_data / "templates").glob("*.jinja")):
        template = ChatTemplate(path.read_text("utf-8"), bos_token="<s>", eos_token="</s>")
        found += [path.stem] if template.writes_tools else []
        refusing += [] if template.takes_system else [path.stem]
    assert tuple(found) == WRITE_TOOLS
    assert tuple(refusing) == TAKE_NO_SYSTEM


@pytest.mark.parametrize("name", WRITE_TOOLS)
def test_it_is_what_transformers_renders(shared_data: Path, name: str) -> None:
    """With every character that JSON escapes in names, schemas, arguments and results."""
    source = (shared_data / "templates" / f"{name}.jinja").read_text("utf-8")
    template = ChatTemplate(source, bos_token="<s>", eos_token="</s>")
    chat, tools = chat_of(HARD), [tool_of(HARD), tool_of("plain", "other")]
    rendered, _ = render_jinja_template(
        conversations=[[plain_message(message) for message in chat]],
        tools=tools,
        chat_template=source,
        add_generation_prompt=True,
        bos_token="<s>",
        eos_token="</s>",
    )
    assert joined(template.render(chat, add_generation_prompt=True, tools=tools)) == rendered[0]


@given(st.text(max_size=20) | st.sampled_from(sorted(CONTROL_TEXTS)))
def test_a_client_text_makes_no_control_token(text: str) -> None:
    """Wherever it stands: in a tool, a call's arguments or a result."""
    template = ChatTemplate(TOOLS_CHATML, bos_token=None, eos_token="<|im_end|>")
    text = text.encode("utf-8", "ignore").decode()

    def controls(text: str) -> list[int]:
        pieces = template.render(
            chat_of(text), add_generation_prompt=True, tools=[tool_of(text, text or "f")]
        )
        return [token for token in TOKENIZER.encode_prompt(pieces) if token in CONTROL_IDS]

    assert controls(text) == controls("plain")


def test_the_rest_of_a_chat_is_what_follows_an_answer() -> None:
    """The same text as at the end of the whole, whatever the answer was."""
    template = ChatTemplate(TOOLS_CHATML, bos_token=None, eos_token="<|im_end|>")
    assert template.writes_tools
    chat, tools = chat_of(HARD), [tool_of(HARD)]
    whole = joined(template.render(chat, add_generation_prompt=True, tools=tools))
    for place in (2, 4):
        rest = joined(template.render_after(chat, place, tools))
        assert whole.endswith(rest)
        assert rest.startswith("<|im_end|>\n")
        assert rest.count("<|im_start|>") == len(chat) - place
    other = [*chat]
    other[2] = ChatMessage("assistant", "something else")
    assert template.render_after(other, 2, tools) == template.render_after(chat, 2, tools)


def test_arguments_that_are_no_json_are_written_as_they_are() -> None:
    """A model may have written anything."""
    template = ChatTemplate(TOOLS_CHATML, bos_token=None, eos_token="<|im_end|>")
    call = ToolCall("c", "f", '{"a": ')
    chat = [ChatMessage("user", "?"), ChatMessage("assistant", "", tool_calls=(call,))]
    plain = [plain_message(message) for message in chat]
    rendered = joined(template.render(chat, add_generation_prompt=False))
    assert rendered == template.render_plainly(plain, add_generation_prompt=False)
    assert json.dumps('{"a": ') in rendered
