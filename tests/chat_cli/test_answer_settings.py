"""The settings of /set: the flags and -o names of chat, read and shown as text."""

from __future__ import annotations

import dataclasses

import click
import pytest

from radixchat.chat_cli.answer_settings import DEFAULT, answer_setting, answer_settings
from radixchat.chat_cli.main import cli
from radixchat.chat_cli.settings import DEFAULT_ANSWER
from radixchat.engine.errors import InvalidRequest
from radixchat.server.protocol import ResponseFormat, ResponseOptions


def changed(*pairs: str) -> ResponseOptions:
    """The options after these values of these settings."""
    options = DEFAULT_ANSWER
    for name, value in zip(pairs[::2], pairs[1::2], strict=True):
        options = answer_setting(name).change(options, value)
    return options


def test_they_are_those_of_the_command_line() -> None:
    """Every flag of chat that says something of an answer, and every name of -o."""
    fields = {field.name for field in dataclasses.fields(ResponseOptions)}
    fields |= {"schema", "regex", "choice", "grammar", "no_speculation"}
    flags = {p.name for p in cli.commands["chat"].params if isinstance(p, click.Option)} & fields
    assert {setting.param.name for setting in answer_settings()} == flags
    assert len(flags) == 26
    names = [setting.name for setting in answer_settings()]
    assert len(set(names)) == len(names)
    assert {"max_tokens", "timeout", "min_tokens", "logprobs", "no_speculation"} <= set(names)


@pytest.mark.parametrize(
    ("name", "value", "field", "read", "shown"),
    [
        ("temperature", "0.70", "temperature", 0.7, "0.7"),
        ("--top-k", "40", "top_k", 40, "40"),
        ("max-tokens", "100", "max_output_tokens", 100, "100"),
        ("stop", "END of it", "stop", ("END of it",), '["END of it"]'),
        ("stop", '["a", "ü"]', "stop", ("a", "ü"), '["a", "ü"]'),
        ("logit_bias", '{"198": -100}', "logit_bias", ((198, -100.0),), '{"198": -100.0}'),
        ("no-speculation", "yes", "speculate", False, "true"),
        ("ignore_eos", "on", "ignore_eos", True, "true"),
        ("truncation", "auto", "truncation", "auto", "auto"),
        ("regex", "a+", "response_format", ResponseFormat("regex", "a+"), "a+"),
        ("choice", '["a"]', "response_format", ResponseFormat("choice", '["a"]'), '["a"]'),
        ("schema", "{}", "response_format", ResponseFormat("json_schema", "{}"), "{}"),
        ("seed", "7", "seed", 7, "7"),
    ],
)  # fmt: skip
def test_values(name: str, value: str, field: str, read: object, shown: str) -> None:
    """Typed as after the flag, shown as one would type it, and taken back."""
    options, setting = changed(name, value), answer_setting(name)
    assert getattr(options, field) == read
    assert setting.shown(options) == shown
    assert not setting.is_default(options)
    assert setting.change(options, DEFAULT) == DEFAULT_ANSWER
    assert [one for one in answer_settings() if not one.is_default(options)] == [setting]


def test_one_form_takes_the_place_of_another() -> None:
    """An answer looks like one of them; taking back one that is not there leaves the other."""
    options = changed("schema", "{}", "regex", "a+")
    assert options.response_format == ResponseFormat("regex", "a+")
    assert answer_setting("schema").shown(options) == "none"
    assert answer_setting("schema").change(options, DEFAULT) == options


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("temperature", "hot", "temperature: 'hot' is not a valid float"),
        ("temperature", "11", "temperature: 11.0 is not in the range 0<=x<=10"),
        ("temperature", "nan", "temperature: 'nan' is not a number"),
        ("truncation", "some", "truncation: 'some' is not one of 'disabled', 'auto'"),
        ("logit_bias", "[1]", "logit_bias: '[1]' is not a JSON object of token ids"),
        ("grammar", "none.lark", "grammar: cannot read 'none.lark': No such file"),
        ("min_tokens", "2000", "min_output_tokens is 2000; allowed: at most max_output"),
        ("stop", '["' + "x" * 300 + '"]', "stop has a text of 300 characters"),
    ],
)  # fmt: skip
def test_wrong_values(name: str, value: str, told: str) -> None:
    """The error of the command line."""
    with pytest.raises(InvalidRequest) as error:
        changed(name, value)
    assert told in str(error.value)


def test_wrong_names() -> None:
    """The one that was meant, or where they are listed; on one line, and harmless."""
    for name, told in (
        ("temprature", "there is no setting 'temprature'; temperature is one, /set lists them"),
        ("x\x1b[2J\ny", "there is no setting 'x␛[2J y'; /set lists them"),
    ):
        with pytest.raises(InvalidRequest) as error:
            answer_setting(name)
        assert str(error.value) == told


def test_a_long_value_is_shown_in_short() -> None:
    """And on one line."""
    shown = answer_setting("grammar").shown(changed("grammar", "start: " + '"a"\n' * 99))
    assert len(shown) == 61
    assert "\n" not in shown
