"""Tools as text in a prompt, for a template that knows none."""

from __future__ import annotations

import json

from radixchat.engine.prompt import ChatMessage, ToolCall
from radixchat.server.tool_prompt import plain_chat, written_call

TOOL = {"type": "function", "function": {"name": "weather", "description": "Of a city"}}
CALL = ToolCall("call_1", "weather", '{"city": "Rome"}')
CHAT = [
    ChatMessage("user", "And the weather?"),
    ChatMessage("assistant", "I look.", tool_calls=(CALL, CALL)),
    ChatMessage("tool", "sunny", tool_call_id="call_1"),
    ChatMessage("tool", "rainy", tool_call_id="call_2"),
    ChatMessage("assistant", "Both."),
]


def test_a_chat_without_tools_stays_as_it_is() -> None:
    """Message for message."""
    chat = [ChatMessage("system", "s"), ChatMessage("user", "u"), ChatMessage("assistant", "a")]
    plain = plain_chat(chat, [], takes_system=True)
    assert plain.messages == tuple(chat)
    assert plain.places == (0, 1, 2)


def test_calls_and_results_are_text() -> None:
    """Results that follow each other are one message of the user's; roles alternate."""
    plain = plain_chat(CHAT, [], takes_system=True)
    assert [message.role for message in plain.messages] == ["user", "assistant"] * 2
    assert plain.messages[1].content == f"I look.\n{written_call(CALL)}\n{written_call(CALL)}"
    assert plain.messages[2].content == (
        "<tool_response>\nsunny\n</tool_response>\n<tool_response>\nrainy\n</tool_response>"
    )
    assert plain.places == (0, 1, 2, 2, 3)
    assert not any(message.tool_calls for message in plain.messages)


def test_a_system_message_tells_of_the_tools() -> None:
    """After what the client says there; one is made where there is none."""
    alone = plain_chat(CHAT, [TOOL], takes_system=True)
    assert alone.messages[0].role == "system"
    assert json.dumps(TOOL) in alone.messages[0].content.splitlines()
    assert alone.places == (1, 2, 3, 3, 4)
    said = plain_chat([ChatMessage("system", "Be brief."), *CHAT], [TOOL], takes_system=True)
    assert said.messages[0].content == f"Be brief.\n\n{alone.messages[0].content}"
    assert said.messages[1:] == alone.messages[1:]
    assert said.places == (0, 1, 2, 3, 3, 4)


def test_without_system_messages_the_first_question_begins_with_it() -> None:
    """What the client says in one included."""
    told = plain_chat(CHAT, [TOOL], takes_system=True).messages[0].content
    plain = plain_chat(CHAT, [TOOL], takes_system=False)
    assert plain.messages[0] == ChatMessage("user", f"{told}\n\nAnd the weather?")
    assert plain.places == (0, 1, 2, 2, 3)
    said = plain_chat([ChatMessage("system", "Be brief."), *CHAT], [TOOL], takes_system=False)
    assert said.messages[0].content == f"Be brief.\n\n{told}\n\nAnd the weather?"
    assert said.places == (0, 0, 1, 2, 2, 3)
    greeted = plain_chat([ChatMessage("assistant", "Hello.")], [TOOL], takes_system=False)
    assert [message.role for message in greeted.messages] == ["user", "assistant"]
    assert greeted.places == (1,)


def test_a_call_is_written_as_models_do() -> None:
    """One line of JSON; no arguments are an empty object."""
    assert written_call(CALL) == (
        '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
    )
    assert '"arguments": {}' in written_call(ToolCall("c", "f", ""))
