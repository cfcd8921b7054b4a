"""What a request for a response asks of the service, and what is refused by name."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from radixchat.server.api_error import ApiError
from radixchat.server.asks import AnotherAnswer, EditedTurn, EventKey, InputMessage, NewTurn
from radixchat.server.decode import decode_client_event
from radixchat.server.input_messages import input_messages
from radixchat.server.protocol import ResponseFormat, ResponseOptions
from radixchat.server.response_ask import ResponseAsk, regenerate_to_ask, response_create_to_ask
from radixchat.server.wire_client_events import ResponseCreate, ResponseRegenerate
from radixchat.server.wire_input import ContentPart, InputItem, Sampling

# Of Sampling's fields, a value each, and ResponseOptions' of it where that is another.
VALUES: dict[str, Any] = {
    "top_k": 3,
    "min_p": 0.25,
    "typical_p": 0.5,
    "repetition_penalty": 1.5,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.75,
    "dry_multiplier": 0.5,
    "dry_base": 2.0,
    "dry_allowed_length": 4,
    "logit_bias": {"7": -1.0},
    "bad_words": ["no"],
    "stop": "end",
    "seed": 11,
    "min_output_tokens": 2,
    "ignore_eos": True,
    "speculate": False,
    "timeout_s": 3.5,
    "priority": 1,
}
READ: dict[str, Any] = {
    **VALUES,
    "logit_bias": ((7, -1.0),),
    "bad_words": ("no",),
    "stop": ("end",),
}


def asked(**fields_: Any) -> ResponseAsk:
    event = decode_client_event(json.dumps({"type": "response.create", "input": "Hi", **fields_}))
    assert isinstance(event, ResponseCreate)
    return response_create_to_ask(event, model="tiny")


def refused(**fields_: Any) -> ApiError:
    with pytest.raises(ApiError) as raised:
        asked(**fields_)
    return raised.value


def another(**fields_: Any) -> ResponseAsk:
    event = decode_client_event(json.dumps({"type": "response.regenerate", **fields_}))
    assert isinstance(event, ResponseRegenerate)
    return regenerate_to_ask(event)


def test_a_text_is_the_users_message() -> None:
    """Without a conversation, with one by its id or as an object, or after a response."""
    messages = (InputMessage("user", "Hi"),)
    assert asked().ask == NewTurn(messages)
    assert asked(conversation="c").ask == NewTurn(messages, conversation="c")
    assert asked(conversation={"id": "c"}).ask == NewTurn(messages, conversation="c")
    assert asked(previous_response_id="r", instructions="Be brief.").ask == NewTurn(
        messages, previous_response="r", instructions="Be brief."
    )


def test_what_is_not_said_is_the_default() -> None:
    """Null as well as nothing at all."""
    nothing = dict.fromkeys(("temperature", "top_p", "store", "truncation", "text"))
    for ask in (asked(), asked(**nothing), asked(x={}), asked(x=dict.fromkeys(VALUES))):
        assert ask.options == ResponseOptions()
        assert ask.arguments == {"metadata": {}}
        assert (ask.n, ask.return_progress, ask.return_token_ids) == (1, False, False)


def test_every_sampling_option_is_read() -> None:
    """Each of the wire's, under the service's name; none is forgotten."""
    assert set(VALUES) == {field.name for field in fields(Sampling)}
    assert asked(x=VALUES).options == ResponseOptions(**READ)
    assert another(response_id="r", x=VALUES).options == ResponseOptions(**READ)


def test_openais_options_are_read() -> None:
    """Its names for them, the format, and log-probabilities by either of its ways."""
    schema = {"type": "object"}
    ask = asked(
        temperature=0.5,
        top_p=0.25,
        max_output_tokens=7,
        truncation="auto",
        top_logprobs=3,
        text={"format": {"type": "json_schema", "name": "n", "schema": schema}},
    )
    assert ask.options == ResponseOptions(
        temperature=0.5,
        top_p=0.25,
        max_output_tokens=7,
        truncation="auto",
        top_logprobs=3,
        response_format=ResponseFormat("json_schema", json.dumps(schema)),
    )
    assert asked(include=["message.output_text.logprobs"]).options.top_logprobs == 0
    json_object = asked(text={"format": {"type": "json_object"}})
    assert json_object.options.response_format == ResponseFormat("json_object")
    assert asked(text={"format": {"type": "text"}}).options.response_format is None
    regex = {"kind": "regex", "value": "a+"}
    assert asked(x={"response_format": regex}).options.response_format == ResponseFormat(
        "regex", "a+"
    )


def test_begins_arguments_are_those_that_were_given() -> None:
    """Metadata always, the others where the client says so."""
    ask = asked(
        event_id="e1",
        store=False,
        generate=False,
        metadata={"a": "b"},
        x={"on_busy": "queue", "detach_s": -1, "n": 3, "return_progress": True},
    )
    assert ask.arguments == {
        "event": EventKey("e1"),
        "store": False,
        "generate": False,
        "metadata": {"a": "b"},
        "on_busy": "queue",
        "detach_s": -1.0,
    }
    assert (ask.n, ask.return_progress) == (3, True)


def test_a_turn_is_edited_by_its_number() -> None:
    """The input is its new text; the conversation has to be said."""
    ask = asked(conversation="c", x={"edit_turn": 2})
    assert ask.ask == EditedTurn("c", 2, "Hi")
    assert refused(x={"edit_turn": 2}).param == "conversation"
    two = [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    assert refused(conversation="c", input=two, x={"edit_turn": 2}).param == "input"


def test_another_answer_is_a_conversations_or_a_responses() -> None:
    """Exactly one of the two."""
    assert another(response_id="r", n=3).ask == AnotherAnswer(response="r")
    assert another(response_id="r", n=3).n == 3
    assert another(conversation="c").ask == AnotherAnswer(conversation="c")
    for fields_ in ({}, {"response_id": "r", "conversation": "c"}):
        with pytest.raises(ApiError, match="one of"):
            another(**fields_)


def test_to_warm_up_instructions_are_enough() -> None:
    """Or anybody's message; an answer needs the user's."""
    assert asked(input=None, generate=False, instructions="s").ask == NewTurn((), instructions="s")
    system = [{"role": "system", "content": "s"}]
    assert asked(input=system, generate=False).ask == NewTurn((InputMessage("system", "s"),))
    assert refused(input=system).param == "input"
    assert refused(input=None, instructions="s").code == "missing_required_parameter"
    assert refused(input=None, generate=False).code == "missing_required_parameter"


@pytest.mark.parametrize(
    ("fields_", "param", "code"),
    [
        ({"tools": [{"type": "function"}]}, "tools", "unsupported_parameter"),
        ({"tool_choice": "required"}, "tool_choice", "unsupported_parameter"),
        ({"background": True}, "background", "unsupported_parameter"),
        ({"prompt": {"id": "p"}}, "prompt", "unsupported_parameter"),
        ({"moderation": {"model": "m"}}, "moderation", "unsupported_parameter"),
        ({"x": {"cache": "off"}}, "x.cache", "unsupported_parameter"),
        ({"model": "gpt-6"}, "model", "model_not_found"),
        (
            {"conversation": "c", "previous_response_id": "r"},
            "previous_response_id",
            "invalid_value",
        ),
        ({"input": []}, "input", "invalid_value"),
        (
            {"text": {"format": {"type": "json_schema"}}},
            "text.format.schema",
            "missing_required_parameter",
        ),
        (
            {
                "text": {"format": {"type": "json_object"}},
                "x": {"response_format": {"kind": "regex", "value": "a"}},
            },
            "x.response_format",
            "invalid_value",
        ),
        ({"x": {"logit_bias": {"cat": 1}}}, "logit_bias", "invalid_value"),
        ({"x": {"logit_bias": {"9" * 5000: 1}}}, "logit_bias", "invalid_value"),
        ({"x": {"timeout_s": -1}}, "timeout_s", "invalid_value"),
        ({"x": {"stop": ""}}, "stop", "invalid_value"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata", "invalid_value"),
        ({"metadata": {"k" * 65: ""}}, "metadata", "invalid_value"),
        ({"metadata": {"k": "v" * 513}}, "metadata.k", "invalid_value"),
    ],
)
def test_what_cannot_be_is_refused_by_name(fields_: dict[str, Any], param: str, code: str) -> None:
    """The field, a code, and a sentence that says what would do."""
    error = refused(**fields_)
    assert (error.param, error.code) == (param, code)
    assert len(error.message) < 300


def test_what_means_nothing_here_is_accepted() -> None:
    """Clients send it by default, and it changes no answer."""
    asked(
        model="tiny",
        tools=[],
        tool_choice="auto",
        background=False,
        reasoning={"effort": "low"},
        service_tier="auto",
        prompt_cache_key="k",
        prompt_cache_options={"comparison_response_id": "r"},
        parallel_tool_calls=True,
        user="somebody",
        x={"cache": "on"},
    )


def test_messages_are_texts_of_four_roles() -> None:
    """ "developer" is the newer name of "system"; the parts of a message are joined."""
    parts = (ContentPart(type="input_text", text="a"), ContentPart(type="text", text="b"))
    assert input_messages(
        (
            InputItem(role="developer", content="s"),
            InputItem(role="user", content=parts),
            InputItem(role="assistant", content=(ContentPart(type="output_text", text="c"),)),
            InputItem(role="user", content=""),
        )
    ) == (
        InputMessage("system", "s"),
        InputMessage("user", "ab"),
        InputMessage("assistant", "c"),
        InputMessage("user", ""),
    )


@pytest.mark.parametrize(
    ("item", "param"),
    [
        (InputItem(type="function_call", role="user", content="a"), "input[0].type"),
        (InputItem(type="item_reference", id="m"), "input[0].type"),
        (InputItem(content="a"), "input[0].role"),
        (InputItem(role="tool", content="a"), "input[0].role"),
        (InputItem(role="user"), "input[0].content"),
        (
            InputItem(role="user", content=(ContentPart(type="input_image"),)),
            "input[0].content[0].type",
        ),
        (InputItem(role="user", content=(ContentPart(type="text"),)), "input[0].content[0].text"),
        (InputItem(role="assistant", content="a"), "input"),
    ],
)
def test_what_is_no_text_is_refused_at_its_place(item: InputItem, param: str) -> None:
    """Images, tools' items, what has no role."""
    with pytest.raises(ApiError) as raised:
        input_messages((item,))
    assert raised.value.param == param
