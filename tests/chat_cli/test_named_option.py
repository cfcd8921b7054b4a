"""`-o NAME VALUE`: which names there are, where values come from, which one counts."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from radixchat.chat_cli.main import cli
from radixchat.chat_cli.named_option import NamedOption
from radixchat.tests.chat_cli.test_chat_command import settings_of, write_config


def complaint(*arguments: str) -> str:
    """What a refused command line is told, on one line."""
    result = CliRunner().invoke(cli, ["chat", *arguments, "hello"])
    assert result.exit_code == 2
    return " ".join(result.stderr.split())


def test_all_settings() -> None:
    """Every setting reaches what it is for."""
    command_line = """
        -o typical_p .9 -o repetition_penalty 1.1 -o presence_penalty 1 -o frequency_penalty -1
        -o dry_multiplier .8 -o dry_base 2 -o dry_allowed_length 3 -o min_tokens 4
        -o ignore_eos true -o logprobs 5 --json -o logit_bias {"198":-100,"7":0.5}
    """
    answer = settings_of(*command_line.split(), "-o", "bad_words", '["a b", "ü"]').answer
    assert (answer.typical_p, answer.repetition_penalty) == (0.9, 1.1)
    assert (answer.presence_penalty, answer.frequency_penalty) == (1, -1)
    assert (answer.dry_multiplier, answer.dry_base, answer.dry_allowed_length) == (0.8, 2, 3)
    assert (answer.min_output_tokens, answer.ignore_eos, answer.top_logprobs) == (4, True, 5)
    assert answer.logit_bias == ((198, -100.0), (7, 0.5))
    assert answer.bad_words == ("a b", "ü")


def test_the_last_value_counts_and_a_dash_is_an_underscore() -> None:
    """As with flags; and names may be spelled as flags are."""
    arguments = ("--option", "dry-base", "3", "-o", "min_tokens", "1", "-o", "dry_base", "4")
    answer = settings_of(*arguments).answer
    assert (answer.dry_base, answer.min_output_tokens) == (4, 1)


def test_each_setting_has_its_own_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """-o wins over a variable, a variable over the file, and leaves the other settings alone."""
    write_config("dry_base = 2\nmin_tokens = 2\ntypical-p = 0.2\nlogit_bias = { 5 = 1 }")
    monkeypatch.setenv("RADIXCHAT_DRY_BASE", "3")
    monkeypatch.setenv("RADIXCHAT_MIN_TOKENS", "3")
    monkeypatch.setenv("RADIXCHAT_BAD_WORDS", '["x"]')
    answer = settings_of("-o", "dry_base", "4").answer
    assert (answer.dry_base, answer.min_output_tokens, answer.typical_p) == (4, 3, 0.2)
    assert (answer.logit_bias, answer.bad_words) == (((5, 1.0),), ("x",))


def test_wrong_names() -> None:
    """A name that there is not gets the list of those that there are; a flag's name, the flag."""
    told = complaint("-o", "penalty", "1")
    assert "there is no 'penalty'; there are bad_words, choice, dry_allowed_length" in told
    assert "typical_p" in told
    assert "has a flag of its own, --top-p" in complaint("-o", "top_p", "1")
    assert "requires 2 arguments" in complaint("-o")
    assert "No such option" in complaint("--min-tokens", "1")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("typical_p", "0", "'-o typical_p': 0.0 is not in the range 1e-06<=x<=1"),
        ("repetition_penalty", "none", "'none' is not a valid float"),
        ("presence_penalty", "nan", "'nan' is not a number"),
        ("dry_base", "inf", "inf is not in the range 1<=x"),
        ("min_tokens", "-1", "-1 is not in the range x>=0"),
        ("logprobs", "21", "21 is not in the range 0<=x<=20"),
        ("ignore_eos", "perhaps", "'perhaps' is not a valid boolean"),
        ("logit_bias", "[1]", "'[1]' is not a JSON object of token ids and numbers of -100 to"),
        ("logit_bias", '{"1": 101}', """numbers of -100 to 100, like '{"198": -100}'"""),
        ("logit_bias", '{"1": 1e400}', "is not a JSON object of token ids and numbers"),
        ("logit_bias", '{"1": -100.5}', "is not a JSON object of token ids and numbers"),
        ("logit_bias", '{"1": "1"}', "is not a JSON object of token ids and numbers"),
        ("logit_bias", '{"1": 1, "01": 2}', "is not a JSON object of token ids and numbers"),
        ("logit_bias", '{"1": true}', "is not a JSON object of token ids and numbers"),
        ("logit_bias", '{"a": 1}', "is not a JSON object of token ids and numbers"),
        ("logit_bias", '{"1": NaN}', "is not a JSON object of token ids and numbers"),
        ("bad_words", "sorry", """'sorry' is not a JSON list of texts, like '["a"]'"""),
        ("bad_words", '[""]', "is not a JSON list of texts"),
        ("choice", "[]", """there is nothing to choose from; try '["yes", "no"]'"""),
        ("regex", "", "'' is not a text of at least one character"),
        ("grammar", "none.lark", "cannot read 'none.lark': No such file or directory"),
    ],
)
def test_wrong_values(name: str, value: str, told: str) -> None:
    """A value that is not right is refused with what would do, before a model is loaded."""
    assert told in complaint("-o", name, value)


def test_a_variable_s_wrong_value_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a wrong variable of a flag."""
    monkeypatch.setenv("RADIXCHAT_TYPICAL_P", "7")
    assert "'RADIXCHAT_TYPICAL_P': 7.0 is not in the range 1e-06<=x<=1" in complaint()


def test_the_help_lists_the_settings() -> None:
    """Each with its range, apart from the flags."""
    text = " ".join(CliRunner().invoke(cli, ["chat", "--help"]).output.split())
    flags, settings = text.split("Settings of -o:")
    chat = cli.commands["chat"]
    names = [param.setting for param in chat.params if isinstance(param, NamedOption)]
    assert len(names) == 15
    for name in names:
        assert f" {name} " in settings
        assert f"--{name.replace('_', '-')} " not in flags
    assert "typical_p X Keeps" in settings
    assert "[default: (off); 1e-06<=x<=1]" in settings
