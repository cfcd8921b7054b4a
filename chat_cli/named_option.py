"""`-o NAME VALUE`: settings that have no flag of their own, and the flag that gives them.

Each is an option of click's like any other (type, variable, key of the configuration file,
precedence), with `-o NAME` for its spelling on the command line. Knows none of them by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem
from click.types import StringParamType

from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.flag import Function, variable

_PAIRS = "named_options"


class NamedOption(click.Option):
    """A setting that is given as `-o NAME VALUE`; of several, the last counts."""

    @property
    def setting(self) -> str:
        """Its NAME."""
        return self.opts[0].lstrip("-").replace("-", "_")

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """It has no flag."""

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        """The last value that `-o` gave it, or else what click finds elsewhere."""
        given = [value for name, value in opts.get(_PAIRS, ()) if _spelled(name) == self.setting]
        if given:
            return given[-1], ParameterSource.COMMANDLINE
        return super().consume_value(ctx, opts)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """How a complaint calls it."""
        return f"'-o {self.setting}'"

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """None: it is not among the flags."""
        return None

    def named_record(self, ctx: click.Context) -> tuple[str, str]:
        """Its line in the list of the settings of `-o`."""
        record = super().get_help_record(ctx)
        assert record is not None, "it is not hidden"
        return f"{self.setting} {self.make_metavar(ctx)}", record[1]


class _Name(StringParamType):
    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        assert ctx is not None
        command = ctx.command
        settings = {p.setting for p in command.params if isinstance(p, NamedOption)}
        name = _spelled(value)
        if name in settings:
            return name
        flag = "--" + name.replace("_", "-")
        if any(flag in p.opts for p in command.params if not isinstance(p, NamedOption)):
            raise click.BadParameter(f"{name} has a flag of its own, {flag}", ctx, param)
        known = ", ".join(sorted(settings))
        raise click.BadParameter(
            f"there is no {neutral_line(value)!r}; there are {known}", ctx, param
        )


def named(name: str, *parameter: str, **attributes: Any) -> Callable[[Function], Function]:
    """A setting of `-o`; parameter: the name of the value, where that is another."""
    return click.option(
        "--" + name.replace("_", "-"),
        *parameter,
        cls=NamedOption,
        envvar=variable(name),
        **attributes,
    )


def named_options() -> Callable[[Function], Function]:
    """The flag `-o`; its values reach their settings, and are none by themselves."""
    return click.option(
        "-o",
        "--option",
        _PAIRS,
        type=(_Name(), str),
        multiple=True,
        expose_value=False,
        shell_complete=_complete,
        metavar="NAME VALUE",
        help="One of the settings below; repeatable.",
    )


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names that there are."""
    settings = [p for p in ctx.command.params if isinstance(p, NamedOption)]
    return [
        CompletionItem(p.setting, help=p.help) for p in settings if p.setting.startswith(incomplete)
    ]


def write_named(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """The list of the settings, if there are any, after that of the flags."""
    records = [p.named_record(ctx) for p in command.get_params(ctx) if isinstance(p, NamedOption)]
    if not records:
        return
    with formatter.section("Settings of -o"):
        formatter.write_dl(records)


def _spelled(name: str) -> str:
    return name.replace("-", "_")
