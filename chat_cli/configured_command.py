"""A command whose options' defaults come from the configuration file, which several share.

Owns whose keys a command passes over: those of its sisters. Knows no flag.
"""

from __future__ import annotations

import os

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from radixchat.chat_cli.config import flag_name, load_config
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.named_option import NamedOption, write_named
from radixchat.chat_cli.paths import config_file
from radixchat.chat_cli.variables import misspelt


class ConfiguredCommand(click.Command):
    """A command whose options' defaults come from the configuration file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the file, then the arguments. Raises click.UsageError."""
        if not ctx.resilient_parsing:
            ctx.default_map = configured(self, ctx)
            for given, near in misspelt(os.environ, variables_of(ctx)):
                told = f"note: {neutral_line(given)} is no flag's variable; {near} is"
                click.echo(told, err=True)
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            _name_variable(ctx, error)
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The flags; what only -o gives is none."""
        named = {p.opts[0] for p in self.get_params(ctx) if isinstance(p, NamedOption)}
        items = super().shell_complete(ctx, incomplete)
        return [item for item in items if item.value not in named]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The flags, then the settings that have none."""
        super().format_options(ctx, formatter)
        write_named(self, ctx, formatter)


def _name_variable(ctx: click.Context, error: click.BadParameter) -> None:
    """A value that a variable has is complained of by the variable's name."""
    param = error.param
    if not isinstance(param, click.Option) or param.name is None:
        return
    if ctx.get_parameter_source(param.name) is ParameterSource.ENVIRONMENT:
        error.param_hint = f"'{param.envvar}'"


def configured(command: click.Command, ctx: click.Context) -> dict[str, object]:
    """What the configuration file says of a command's options, by parameter.

    Raises click.UsageError, for a key too that is no command's.
    """
    root = ctx.find_root().command
    sisters = root.commands.values() if isinstance(root, click.Group) else ()
    others = {
        flag_name(option)
        for sister in sisters
        if isinstance(sister, ConfiguredCommand)
        for option in _options(sister)
    }
    return load_config(config_file(), _options(command), others)


def variables_of(ctx: click.Context) -> set[str]:
    """The environment variables of every command's options."""
    found, commands = set[str](), [ctx.find_root().command]
    for command in commands:
        if isinstance(command, click.Group):
            commands.extend(command.commands.values())
        found.update(str(option.envvar) for option in _options(command))
    return found


def _options(command: click.Command) -> list[click.Option]:
    """Those that can be set elsewhere: what has a variable has a key, and nothing else has one."""
    return [param for param in command.params if isinstance(param, click.Option) and param.envvar]
