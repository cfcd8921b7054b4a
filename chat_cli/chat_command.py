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
from radixchat.chat_cli.server_flags import server_flags, take_server
from radixchat.chat_cli.settings import ChatSettings
from radixchat.chat_cli.shell_completion import conversations, files
from radixchat.chat_cli.value_types import Text

_HELP = """Chat with a model in this process, or at a server.

On a terminal: a conversation, until Ctrl-D or /exit (/help lists the commands). With WORDS: they
are one question; it is answered, and the command ends. With piped standard input and no WORDS:
each line is a turn of one conversation. With both: standard input is put before the question,
as its context. With `-` as the only word: all of standard input is one question.

The answer goes to standard output, everything else to standard error. Ctrl-C, or at a prompt Esc,
stops an answer and keeps what is there; a second Ctrl-C within two seconds leaves.

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
    option(
        "--session",
        type=Text(),
        metavar="ID|NAME",
        shell_complete=conversations,
        help="Continue this one: its id, its name, or how one of them begins.",
    ),
    option("-s", "--system", metavar="TEXT", help="System message of a new conversation."),
    option(
        "-a",
        "--attach",
        type=Text(),
        metavar="FILE",
        shell_complete=files,
        multiple=True,
        help="Put this text file before the first message; repeatable.",
    ),
    option(
        "-n",
        "--no-log",
        is_flag=True,
        help="Forget what was said when the chat ends, however it ends.",
    ),
    option("--no-history", is_flag=True, help="Neither read nor keep what is typed at the prompt."),
    database_flag,
)
_SERVER = server_flags("Chat with the server there: ws://HOST:PORT, https://HOST.")
_OUTPUT = options(
    option("--json", is_flag=True, help="One JSON object per turn."),
    option("--ids", is_flag=True, help="With --json: the exact token ids too."),
    option(
        "-x",
        "--extract",
        is_flag=True,
        help="With WORDS: only the first code block of the answer; 1 if it has none.",
    ),
    option(
        "--raw",
        is_flag=True,
        help="Answers as plain text; in a file or a pipe with all that the model wrote.",
    ),
    option("-q", "--quiet", is_flag=True, help="No notes and no status lines, errors only."),
    option("--no-color", is_flag=True, help="What the variable NO_COLOR asks for."),
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
    if not settings.color:
        # Where whoever draws looks for it: rich, prompt_toolkit, the user's editor.
        os.environ["NO_COLOR"] = "1"
    question = " ".join(os.fsencode(word).decode("utf-8", "replace") for word in words)

    from radixchat.chat_cli.run import run_chat

    raise SystemExit(run_chat(settings, question if words else None))


def resolve(ctx: click.Context, values: dict[str, Any]) -> ChatSettings:
    """The settings, from the parsed values and where each came from.

    Raises click.UsageError for flags that contradict each other.
    """
    for first, second, complaint in _CONTRADICTIONS:
        _take_nearer(ctx, values, first, second, complaint)
    continues = values["continue_last"] or values["session"] is not None
    if continues and ctx.get_parameter_source("system") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--system is for a new conversation; the old one has its own")
    if ctx.get_parameter_source("ids") is ParameterSource.COMMANDLINE and not values["json"]:
        raise click.UsageError("--ids adds to the objects of --json; give both")
    logprobs = ctx.get_parameter_source("top_logprobs")
    if logprobs is ParameterSource.COMMANDLINE and not values["json"]:
        raise click.UsageError("-o logprobs adds to the objects of --json; give both")
    if values["extract"] and not ctx.params["words"]:
        if ctx.get_parameter_source("extract") is ParameterSource.COMMANDLINE:
            raise click.UsageError("--extract is of one answer: give the question as WORDS, or -")
        values["extract"] = False
    local = (*ENGINE_NAMES, "no_cache", "database")
    take_server(ctx, values, local, "an engine in this process")
    nearness = {
        name: _NEARNESS.index(source)
        for name in values
        if (source := ctx.get_parameter_source(name)) is not None
    }
    answer = take_answer(values, nearness)
    for name in ("color", "history", "log"):
        values[name] = not values.pop(f"no_{name}")
    return ChatSettings(
        database=take_database(values), answer=answer, **take_engine(values), **values
    )


def _take_nearer(
    ctx: click.Context, values: dict[str, Any], first: str, second: str, complaint: str
) -> None:
    """Of two parameters that exclude each other, the one nearer to the user counts.

    Raises click.UsageError, with the complaint: both are given, equally near.
    """
    if not (values[first] and values[second]):
        return
    sources = [ctx.get_parameter_source(name) for name in (first, second)]
    nearness = [_NEARNESS.index(source) for source in sources if source is not None]
    if nearness[0] == nearness[1]:
        raise click.UsageError(complaint)
    farther = second if nearness[0] < nearness[1] else first
    values[farther] = None if isinstance(values[farther], str) else False


_FORGOTTEN = "is stored, and --no-log is for a conversation that is forgotten"
_CONTRADICTIONS = (
    ("continue_last", "session", "--continue and --session name different conversations"),
    ("continue_last", "no_log", f"what --continue goes on with {_FORGOTTEN}"),
    ("session", "no_log", f"what --session names {_FORGOTTEN}"),
    ("extract", "json", "--extract prints code, --json an object; give one of them"),
    ("raw", "json", "--raw leaves the text as it is, --json quotes it; give one of them"),
)
# Lower is nearer to the user: a flag wins over a variable, a variable over the file.
_NEARNESS = (
    ParameterSource.COMMANDLINE,
    ParameterSource.ENVIRONMENT,
    ParameterSource.DEFAULT_MAP,
    ParameterSource.DEFAULT,
)
