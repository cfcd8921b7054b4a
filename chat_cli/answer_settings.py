"""The settings of an answer by name, read from text and shown as text: what /set knows.

They are the flags and the `-o` names of `radixchat chat`, with the same types, ranges and errors.
Owns how a value is shown. Knows no conversation.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
from dataclasses import dataclass
from typing import Any

import click

from radixchat.chat_cli.answer_flags import FORMATS, answer_flags
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.named_option import NamedOption
from radixchat.chat_cli.settings import DEFAULT_ANSWER
from radixchat.server.protocol import InvalidRequest, ResponseFormat, ResponseOptions

DEFAULT = "default"
"""The value that takes a change back."""
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class AnswerSetting:
    """One of them. name: the flag's, with underscores."""

    name: str
    param: click.Option

    def is_default(self, options: ResponseOptions) -> bool:
        """Whether answers are asked for as they are without any flag."""
        return bool(self._value(options) == self._value(DEFAULT_ANSWER))

    def shown(self, options: ResponseOptions) -> str:
        """Its value as one would type it; what it means where there is none."""
        value = self._value(options)
        is_off = self.is_default(options) and isinstance(self.param.show_default, str)
        if is_off:
            return str(self.param.show_default)
        if value is None or value == ():
            return "none"
        if self.name == "logit_bias":
            value = dict(value)
        if isinstance(value, bool | tuple | dict):
            value = json.dumps(value, ensure_ascii=False)
        text = neutral_line(f"{value:g}" if isinstance(value, float) else str(value))
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

    def change(self, options: ResponseOptions, text: str) -> ResponseOptions:
        """The options with the value that is written so; DEFAULT: as without the flag.

        Raises InvalidRequest: no such value, or one that contradicts another.
        """
        if text == DEFAULT:
            return self._with(options, self._value(DEFAULT_ANSWER))
        return self._with(options, self._read(text))

    def _read(self, text: str) -> Any:
        given: Any = self.param.type.split_envvar_value(text) if self.param.multiple else text
        ctx = click.Context(_command())
        try:
            return self.param.type_cast_value(ctx, given)
        except click.BadParameter as error:
            raise InvalidRequest(f"{self.name}: {error.message}") from error

    def _with(self, options: ResponseOptions, value: Any) -> ResponseOptions:
        field = self.param.name
        assert field is not None
        if field == "no_speculation":
            return dataclasses.replace(options, speculate=not value)
        if field in FORMATS:
            if value is None:
                same = self._value(options) is None  # another one's form stays
                return options if same else dataclasses.replace(options, response_format=None)
            form = json.dumps(value, ensure_ascii=False) if field == "choice" else value
            return dataclasses.replace(
                options, response_format=ResponseFormat(FORMATS[field], form)
            )
        return dataclasses.replace(options, **{field: value})

    def _value(self, options: ResponseOptions) -> Any:
        field = self.param.name
        assert field is not None
        if field == "no_speculation":
            return not options.speculate
        if field in FORMATS:
            form = options.response_format
            return form.value if form is not None and form.kind == FORMATS[field] else None
        return getattr(options, field)


def answer_setting(name: str) -> AnswerSetting:
    """The setting of that name, spelled as a flag or with underscores. Raises InvalidRequest."""
    wanted = name.lstrip("-_").replace("-", "_")
    for setting in answer_settings():
        if wanted in (setting.name, setting.param.name):
            return setting
    names = [setting.name for setting in answer_settings()]
    near = difflib.get_close_matches(wanted, names, n=1)
    meant = f"{near[0]} is one, " if near else ""
    raise InvalidRequest(
        f"there is no setting {neutral_line(name)[:_SHOWN]!r}; {meant}/set lists them"
    )


def answer_settings() -> tuple[AnswerSetting, ...]:
    """All of them, in the order of the help."""
    found = []
    for param in _command().params:
        if isinstance(param, NamedOption):
            found.append(AnswerSetting(param.setting, param))
        elif isinstance(param, click.Option) and param.expose_value:
            flag = max((opt for opt in param.opts if opt.startswith("--")), key=len)
            found.append(AnswerSetting(flag[2:].replace("-", "_"), param))
    return tuple(found)


@functools.cache
def _command() -> click.Command:
    """A command that has them and nothing else."""

    @click.command("/set")
    @answer_flags
    def command(**values: Any) -> None:
        """Never called."""

    return command
