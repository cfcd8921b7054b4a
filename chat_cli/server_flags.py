"""The flags that name a server and its key, and what they are in the place of.

Shared by the commands that talk to a server or to what is in this process. Opens no connection.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from radixchat.chat_cli.flag import Function, option, options
from radixchat.chat_cli.server_address import shown_url
from radixchat.server.protocol import ConfigError

_KEY = option(
    "--key",
    metavar="KEY",
    help="The server's key; as RADIXCHAT_KEY no list of processes shows it.",
)


def server_flags(url_help: str) -> Callable[[Function], Function]:
    """Decorates a command with `--url` and `--key`."""
    return options(option("--url", metavar="URL", help=url_help), _KEY)


def take_server(
    ctx: click.Context, values: MutableMapping[str, Any], local: Sequence[str], what: str
) -> None:
    """Leave --url and --key as they count; with a URL no parameter of `local` may be given.

    what: those are for, in words: "an engine in this process". Raises click.UsageError.
    """
    values["url"], values["key"] = values["url"] or None, values["key"] or None
    if values["url"] is None:
        if ctx.get_parameter_source("key") is ParameterSource.COMMANDLINE:
            raise click.UsageError("--key is for a server; give its --url too")
        return
    try:
        url = shown_url(values["url"])
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    for name in local:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            param = next(p for p in ctx.command.params if p.name == name)
            flag = (param.secondary_opts if values[name] is False else param.opts)[-1]
            raise click.UsageError(f"{flag} is for {what}; {url} has its own (--url '' is without)")
