"""What flags and settings ask of an answer together, and that the service would take it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from radixchat.chat_cli.chat_command import chat
from radixchat.chat_cli.value_types import MAX_BIAS
from radixchat.engine.errors import InvalidSamplingParams
from radixchat.engine.sampling_params import SamplingParams
from radixchat.server.protocol import ResponseFormat
from radixchat.server.response_options import MAX_CHARACTERS, MAX_STOPS
from radixchat.tests.chat_cli.test_chat_command import settings_of, write_config
from radixchat.tests.chat_cli.test_named_option import complaint

SCHEMA = '{"type": "object"}'
# Where a flag's name differs from the engine's.
ENGINE_NAMES = {
    "max_output_tokens": "max_tokens",
    "min_output_tokens": "min_tokens",
    "top_logprobs": "logprobs",
}
PARAMETERS = set(SamplingParams.__slots__)
RANGED = [
    param
    for param in chat.params
    if isinstance(param.type, click.IntRange | click.FloatRange)
    and ENGINE_NAMES.get(param.name or "", param.name) in PARAMETERS
]


@pytest.mark.parametrize("param", RANGED, ids=lambda param: param.name)
def test_ranges_are_the_engine_s(param: click.Parameter) -> None:
    """What the command line takes the engine takes; the value beyond a bound neither does."""
    bounds = param.type
    assert isinstance(bounds, click.IntRange | click.FloatRange)
    assert param.name is not None
    name = ENGINE_NAMES.get(param.name, param.name)
    in_range: Callable[[Any, click.Parameter, None], float] = bounds.convert
    engine: Callable[..., SamplingParams] = SamplingParams
    step = 1 if isinstance(bounds, click.IntRange) else 1e-6
    for bound, is_open, outwards in (
        (bounds.min, bounds.min_open, -1),
        (bounds.max, bounds.max_open, 1),
    ):
        if bound is None:
            assert engine(**{name: 2**62}), "a number without a bound"
            continue
        inside = math.nextafter(bound, bound - outwards) if is_open else bound
        outside = bound if is_open else bound + outwards * step
        assert in_range(inside, param, None) == inside
        assert getattr(engine(**{name: inside}), name) == inside
        with pytest.raises(click.BadParameter):
            in_range(outside, param, None)
        with pytest.raises(InvalidSamplingParams):
            engine(**{name: outside})


def test_schema(tmp_path: Path) -> None:
    """Of a file or as it is; the text goes to the service as it was written."""
    file = tmp_path / "schema.json"
    file.write_text(f"\n{SCHEMA}\n", encoding="utf-8")
    expected = ResponseFormat("json_schema", SCHEMA)
    assert settings_of("--schema", SCHEMA).answer.response_format == expected
    assert settings_of("--schema", str(file)).answer.response_format == ResponseFormat(
        "json_schema", f"\n{SCHEMA}\n"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"type": ', "is not JSON: Expecting value: line 1 column 10"),
        ("none.json", "cannot read 'none.json': No such file or directory; a schema begins with {"),
        ("", "cannot read"),
        ("a\x00b", "cannot read"),
    ],
)
def test_wrong_schemas(text: str, told: str) -> None:
    """What is no schema is refused with the reason, before a model is loaded."""
    assert told in complaint("--schema", text)


def test_wrong_schema_files(tmp_path: Path) -> None:
    """A file that is no JSON object, or no text, is refused by its name."""
    file = tmp_path / "schema.json"
    for data, told in ((b"[]", "is an object"), (b"{", "not JSON"), (b"\xff", "cannot read")):
        file.write_bytes(data)
        assert told in complaint("--schema", str(file))
    assert "cannot read" in complaint("--schema", str(tmp_path))


@pytest.mark.parametrize("text", ["schema = { type = 'object' }", "[schema]\ntype = 'object'"])
def test_a_schema_in_the_file_may_be_a_table(text: str) -> None:
    """What JSON has as an object, TOML has as a table; a flag wins over it."""
    write_config(text)
    assert settings_of().answer.response_format == ResponseFormat("json_schema", SCHEMA)
    given = settings_of("-o", "regex", "a").answer.response_format
    assert given == ResponseFormat("regex", "a")


def test_formats(tmp_path: Path) -> None:
    """A regex, a choice, a grammar or its file."""
    file = tmp_path / "g.lark"
    file.write_text('start: "a"', encoding="utf-8")
    for name, value, kind, sent in (
        ("regex", "[0-9]+", "regex", "[0-9]+"),
        ("choice", '["ja", "nö"]', "choice", '["ja", "nö"]'),
        ("grammar", 'start: "a"', "lark", 'start: "a"'),
        ("grammar", str(file), "lark", 'start: "a"'),
    ):
        found = settings_of("-o", name, value).answer.response_format
        assert found == ResponseFormat(kind, sent)


def test_one_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest to the user counts; two that are as near contradict each other."""
    write_config("regex = 'a'")
    monkeypatch.setenv("RADIXCHAT_CHOICE", '["b"]')
    assert settings_of().answer.response_format == ResponseFormat("choice", '["b"]')
    given = settings_of("--schema", SCHEMA).answer.response_format
    assert given == ResponseFormat("json_schema", SCHEMA)
    told = complaint("--schema", SCHEMA, "-o", "regex", "a")
    assert "schema and regex both say what an answer looks like; give one of them" in told


def test_stop_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is taken as it is, spaces too; a variable has one, or a JSON list of several."""
    assert settings_of("--stop", " a b ").answer.stop == (" a b ",)
    for value, stop in (
        ("User: ", ("User: ",)),
        ('["a b", "\\n\\n"]', ("a b", "\n\n")),
        ("[END]", ("[END]",)),
        ("3", ("3",)),
    ):
        monkeypatch.setenv("RADIXCHAT_STOP", value)
        assert settings_of().answer.stop == stop
    monkeypatch.setenv("RADIXCHAT_STOP", '["a", 1]')
    assert "1 is not a text" in complaint()
    assert "'' is not a text of at least one character" in complaint("--stop", "")


def test_what_the_options_refuse_is_a_usage_error() -> None:
    """Before the model is loaded, in the words of ResponseOptions."""
    stops = ["--stop", "x" * MAX_CHARACTERS] * MAX_STOPS
    assert len(settings_of(*stops).answer.stop) == MAX_STOPS
    assert "Error: stop has 17 texts; allowed: at most 16" in complaint(*stops, "--stop", "y")
    told = complaint("-o", "bad_words", json.dumps(["x" * (MAX_CHARACTERS + 1)]))
    assert "Error: bad_words has a text of 257 characters" in told
    assert "bad_words has ' '; a text needs" in complaint("-o", "bad_words", '[" "]')
    told = complaint("-o", "min_tokens", "9", "--max-tokens", "8")
    assert "min_output_tokens is 9; allowed: at most max_output_tokens, 8" in told
    assert settings_of("-o", "min_tokens", "8", "--max-tokens", "8").answer.min_output_tokens == 8


def test_a_bias_has_the_engine_s_range() -> None:
    """The largest and the smallest are taken by both, one beyond by neither."""
    for sign in (1, -1):
        bias = settings_of("-o", "logit_bias", f'{{"7": {sign * MAX_BIAS}}}').answer.logit_bias
        assert SamplingParams(logit_bias=bias).logit_bias == ((7, sign * MAX_BIAS),)
        beyond = sign * (MAX_BIAS + 1)
        assert "logit_bias" in complaint("-o", "logit_bias", f'{{"7": {beyond}}}')
        with pytest.raises(InvalidSamplingParams):
            SamplingParams(logit_bias=((7, beyond),))


@pytest.mark.parametrize("value", ["0", "-1", "inf", "nan", "soon"])
def test_wrong_timeouts(value: str) -> None:
    """A time limit is a number of seconds, more than none."""
    assert "'--timeout'" in complaint("--timeout", value)
