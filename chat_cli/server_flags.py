"""The flags that name a server and its key, and what they are in the place of.

Shared by the commands that talk to a server or to what is in this process. Opens no connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any

import click
from click.core import ParameterSource

from radixchat.chat_cli.flag import Function, option, options
from radixchat.chat_cli.server_address import shown_url
from radixchat.chat_cli.server_key import usable_key
from radixchat.server.protocol import ConfigError

_KEY = option(
    "--key",
    metavar="KEY",
    hide_input=True,
    help="The server's key; as RADIXCHAT_KEY no list of processes shows it.",
)

_KEY_GIVEN_AS: Mapping[ParameterSource | None, str] = MappingProxyType(
    {
        ParameterSource.COMMANDLINE: "the key (--key)",
        ParameterSource.ENVIRONMENT: "the key (RADIXCHAT_KEY)",
        ParameterSource.DEFAULT_MAP: "the key in the configuration file",
    }
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
    values["url"] = values["url"] or None
    source = ctx.get_parameter_source("key")
    if values["url"] is None:
        if source is ParameterSource.COMMANDLINE:
            raise click.UsageError("--key is for a server; give its --url too")
        values["key"] = None
        return
    try:
        url = shown_url(values["url"])
        values["key"] = usable_key(values["key"], _KEY_GIVEN_AS.get(source, "the server's key"))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    for name in local:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            param = next(p for p in ctx.command.params if p.name == name)
            flag = (param.secondary_opts if values[name] is False else param.opts)[-1]
            raise click.UsageError(f"{flag} is for {what}; {url} has its own (--url '' is without)")
