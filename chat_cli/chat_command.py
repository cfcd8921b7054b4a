"""`radixchat chat`: its flags, resolved into ChatSettings.

Knows click and nothing that is slow to import; what it does is in `run.py`.
"""

from __future__ import annotations

import os
from typing import Any

import click
from click.core import ParameterSource

from radixchat.chat_cli.answer_flags import answer_flags, take_answer
from radixchat.chat_cli.configured_command import ConfiguredCommand
from radixchat.chat_cli.engine_flags import (
    ENGINE_NAMES,
    database_flag,
    engine_flags,
    take_database,
    take_engine,
)
from radixchat.chat_cli.exit_codes import help_epilog
from radixchat.chat_cli.flag import option, options
from radixchat.chat_cli.server_address import shown_url
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.protocol import ConfigError

_HELP = """Chat with a model in this process, or at a server.

On a terminal: a conversation, until Ctrl-D or /exit (/help lists the commands). With WORDS: they
are one question; it is answered, and the command ends. With piped standard input and no WORDS:
each line is a turn of one conversation. With both: standard input is put before the question,
as its context. With `-` as the only word: all of standard input is one question.

The answer goes to standard output, everything else to standard error. Ctrl-C stops an answer and
keeps what is there; a second within two seconds leaves.

With --url, a server (`radixchat serve`) answers and keeps the conversations: no model is loaded
here, and what is said of models, engines and databases below is not for this command. A connection
that breaks is made again, and the answer goes on.

Every flag and every setting of -o can be given by a variable RADIXCHAT_<FLAG>
(RADIXCHAT_TOP_P=0.8; RADIXCHAT_EXACT=false is --no-exact) or in config.toml (top_p = 0.8). A flag
wins over a variable, a variable over the file. config.toml lies in RADIXCHAT_CONFIG_DIR, or else in
the platform's configuration folder (Linux: ~/.config/radixchat).
"""


_CONVERSATION = options(
    option("-c", "--continue", "continue_last", is_flag=True, help="Continue the last one."),
    option("--session", metavar="ID", help="Continue this one (or a prefix of its id)."),
    option("-s", "--system", metavar="TEXT", help="System message of a new conversation."),
    database_flag,
)
_SERVER = options(
    option(
        "--url",
        metavar="URL",
        help="Chat with the server there: ws://HOST:PORT, https://HOST.",
    ),
    option(
        "--key",
        metavar="KEY",
        help="The server's key; as RADIXCHAT_KEY no list of processes shows it.",
    ),
)
_OUTPUT = options(
    option("--json", is_flag=True, help="One JSON object per turn."),
    option("--ids", is_flag=True, help="With --json: the exact token ids too."),
)


@click.command(
    "chat",
    cls=ConfiguredCommand,
    help=_HELP,
    epilog=help_epilog(),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("words", nargs=-1)
@_CONVERSATION
@_SERVER
@engine_flags
@answer_flags
@_OUTPUT
@click.pass_context
def chat(ctx: click.Context, /, words: tuple[str, ...], **values: Any) -> None:
    """Resolve the settings and run the chat; exits with its code."""
    settings = resolve(ctx, values)
    question = " ".join(os.fsencode(word).decode("utf-8", "replace") for word in words)

    from radixchat.chat_cli.run import run_chat

    raise SystemExit(run_chat(settings, question if words else None))


def resolve(ctx: click.Context, values: dict[str, Any]) -> ChatSettings:
    """The settings, from the parsed values and where each came from.

    Raises click.UsageError for flags that contradict each other.
    """
    continue_source = ctx.get_parameter_source("continue_last")
    session_source = ctx.get_parameter_source("session")
    if values["continue_last"] and values["session"] is not None:
        assert continue_source is not None
        assert session_source is not None
        # Lower is nearer to the user: a flag wins over a variable, a variable over the file.
        if continue_source == session_source:
            raise click.UsageError("--continue and --session name different conversations")
        if _NEARNESS.index(continue_source) < _NEARNESS.index(session_source):
            values["session"] = None
        else:
            values["continue_last"] = False
    continues = values["continue_last"] or values["session"] is not None
    if continues and ctx.get_parameter_source("system") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--system is for a new conversation; the old one has its own")
    if ctx.get_parameter_source("ids") is ParameterSource.COMMANDLINE and not values["json"]:
        raise click.UsageError("--ids adds to the objects of --json; give both")
    logprobs = ctx.get_parameter_source("top_logprobs")
    if logprobs is ParameterSource.COMMANDLINE and not values["json"]:
        raise click.UsageError("-o logprobs adds to the objects of --json; give both")
    _take_server(ctx, values)
    nearness = {
        name: _NEARNESS.index(source)
        for name in values
        if (source := ctx.get_parameter_source(name)) is not None
    }
    answer = take_answer(values, nearness)
    return ChatSettings(
        database=take_database(values), answer=answer, **take_engine(values), **values
    )


def _take_server(ctx: click.Context, values: dict[str, Any]) -> None:
    """Leave --url and --key as they count. Raises click.UsageError."""
    values["url"], values["key"] = values["url"] or None, values["key"] or None
    if values["url"] is None:
        if ctx.get_parameter_source("key") is ParameterSource.COMMANDLINE:
            raise click.UsageError("--key is for a server; give its --url too")
        return
    try:
        url = shown_url(values["url"])
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    for name in (*ENGINE_NAMES, "no_cache", "database"):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            param = next(p for p in ctx.command.params if p.name == name)
            flag = (param.secondary_opts if values[name] is False else param.opts)[-1]
            raise click.UsageError(
                f"{flag} is for an engine in this process; {url} has its own (--url '' is without)"
            )


_NEARNESS = (
    ParameterSource.COMMANDLINE,
    ParameterSource.ENVIRONMENT,
    ParameterSource.DEFAULT_MAP,
    ParameterSource.DEFAULT,
)
