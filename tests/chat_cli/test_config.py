"""The configuration file: read, checked, and every complaint names the file and the key."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from radixchat.chat_cli.chat_command import chat
from radixchat.chat_cli.config import flag_name, load_config

OPTIONS = [param for param in chat.params if isinstance(param, click.Option)]


def load(path: Path, text: str) -> dict[str, object]:
    path.write_text(text, encoding="utf-8")
    return load_config(path, OPTIONS)


def test_no_file(tmp_path: Path) -> None:
    """No file is no setting."""
    assert load_config(tmp_path / "none.toml", OPTIONS) == {}


def test_values(tmp_path: Path) -> None:
    """Keys are the flags' long names, with either dash; values come by parameter name."""
    text = 'model = "m"\ntop-p = 0.5\nmax_tokens = 9\nno-cache = true\ncontinue = true\n'
    text += 'temperature = 1\ndb = "x.db"\n'
    assert load(tmp_path / "c.toml", text) == {
        "model": "m",
        "top_p": 0.5,
        "max_output_tokens": 9,
        "no_cache": True,
        "continue_last": True,
        "temperature": 1,
        "database": "x.db",
    }


def test_every_flag_is_a_key(tmp_path: Path) -> None:
    """Each flag, and each setting of -o, can be set in the file; -o itself has no value."""
    values = {
        "boolean": "true",
        "integer range": "1",
        "float range": "0.5",
        "text": '"1"',
        "json_schema": '"{}"',
        "lark_grammar": """'start: "1"'""",
        "text_list": '["1"]',
        "choices": '["1"]',
        "token_bias": "{ 1 = 0.5 }",
        "byte_size": "1",
        "file": '"1"',
    }
    for option in OPTIONS:
        value = values.get(option.type.name)
        if isinstance(option.type, click.FloatRange) and (option.type.min or 0) > 0.5:
            value = str(float(option.type.min or 0))
        if isinstance(option.type, click.Choice):
            value = f'"{option.type.choices[0]}"'
        if option.expose_value:
            text = f"{flag_name(option)} = {value}"
            assert list(load(tmp_path / "c.toml", text)) == [option.name]
        else:
            with pytest.raises(click.UsageError, match="unknown key"):
                load(tmp_path / "c.toml", f'{flag_name(option)} = "x"')


def test_several_texts(tmp_path: Path) -> None:
    """Of a repeatable flag the file has one text, or a list of them."""
    path = tmp_path / "c.toml"
    assert load(path, 'stop = "END"') == {"stop": ["END"]}
    assert load(path, 'stop = ["END", "\\n\\n"]') == {"stop": ["END", "\n\n"]}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("modle = 'x'", "modle: unknown key; known: attach, bad_words, choice, continue, "),
        ("max_tokens = '9'", "max_tokens: '9' is not an integer"),
        ("max_tokens = 9.0", "max_tokens: 9.0 is not an integer"),
        ("max_tokens = true", "max_tokens: True is not an integer"),
        ("max_tokens = 0", "max_tokens: 0 is not in the range x>=1"),
        ("temperature = 'hot'", "temperature: 'hot' is not a number"),
        ("temperature = nan", "temperature: nan is not a number"),
        ("top_p = 1.5", "top_p: 1.5 is not in the range 0<x<=1"),
        ("json = 1", "json: 1 is not true or false"),
        ("model = 1", "model: 1 is not a string"),
        ("stop = ['a', 1]", "stop: 1 is not a string"),
        ("stop = ''", "stop: '' is not a text of at least one character"),
        ("bad_words = 'x'", "bad_words: 'x' is not a list"),
        ("bad_words = [1]", "bad_words: '[1]' is not a JSON list of texts"),
        ("logit_bias = [1]", "logit_bias: [1] is not a table"),
        ("logit_bias = { x = 1 }", "is not a JSON object of token ids and numbers"),
        ("ignore_eos = 1", "ignore_eos: 1 is not true or false"),
        ("schema = [1]", "schema: [1] is not a string or a table"),
        ("schema = { default = nan }", "is not JSON: Out of range float values"),
        ("schema = { default = 2020-01-01 }", "is not JSON: Object of type date"),
        ("schema = 'none.json'", "cannot read 'none.json': No such file"),
        ("truncation = 'never'", "truncation: 'never' is not one of"),
        ("timeout = inf", "timeout: inf is not a number"),
        ("[chat]\nmodel = 'x'", "chat: unknown key"),
        ("model = ", "it is not TOML: Invalid value"),
        ('"\\u001b[2J" = 1', "␛[2J: unknown key"),
    ],
)
def test_complaints(tmp_path: Path, text: str, complaint: str) -> None:
    """Whatever is wrong is refused with the file, the key and the value."""
    path = tmp_path / "config.toml"
    with pytest.raises(click.UsageError) as caught:
        load(path, text)
    assert str(path) in caught.value.message
    assert complaint in caught.value.message


@pytest.mark.parametrize("text", ["key = ['rc_secret']", "key = { rc_secret = 1 }"])
def test_a_key_is_not_quoted(tmp_path: Path, text: str) -> None:
    """A complaint about a server's key does not have it."""
    with pytest.raises(click.UsageError, match="is not a string") as refused:
        load(tmp_path / "config.toml", text)
    assert "secret" not in refused.value.message


def test_not_text(tmp_path: Path) -> None:
    """A file that is not UTF-8, or a folder, is refused by name."""
    path = tmp_path / "config.toml"
    path.write_bytes(b"model = '\xff'")
    with pytest.raises(click.UsageError, match=r"config\.toml: it is no text in UTF-8.*0xff at 9"):
        load_config(path, OPTIONS)
    with pytest.raises(click.UsageError, match=f"{tmp_path}: it is a folder"):
        load_config(tmp_path, OPTIONS)
