"""`radixchat chat`: its flags, resolved into ChatSettings.

Knows click and nothing that is slow to import; what it does is in `run.py`.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from radixchat.chat_cli.answer_flags import answer_flags, take_answer
from radixchat.chat_cli.config import load_config
from radixchat.chat_cli.exit_codes import help_epilog
from radixchat.chat_cli.flag import count, option, options
from radixchat.chat_cli.named_option import write_named
from radixchat.chat_cli.paths import config_file, database_file
from radixchat.chat_cli.settings import ChatSettings

# Those of radixchat.radix.policies, named here because importing them would be slow.
EVICTION_POLICIES = ("lru", "slru", "tlru", "chat")
# Those of radixchat.engine.arithmetic, for the same reason.
WEIGHTS = ("auto", "fp32", "int8")
KV_FORMATS = ("auto", "int8")
DEVICES = ("auto", "cpu", "cuda")

_HELP = """Chat with a model in this process.

On a terminal: a conversation, until Ctrl-D or /exit (/help lists the commands). With WORDS: they
are one question; it is answered, and the command ends. With piped standard input and no WORDS:
each line is a turn of one conversation. With both: standard input is put before the question,
as its context. With `-` as the only word: all of standard input is one question.

The answer goes to standard output, everything else to standard error. Ctrl-C stops an answer and
keeps what is there; a second within two seconds leaves.

Every flag and every setting of -o can be given by a variable RADIXCHAT_<FLAG>
(RADIXCHAT_TOP_P=0.8; RADIXCHAT_EXACT=false is --no-exact) or in config.toml (top_p = 0.8). A flag
wins over a variable, a variable over the file. config.toml lies in RADIXCHAT_CONFIG_DIR, or else in
the platform's configuration folder (Linux: ~/.config/radixchat).
"""


class ConfiguredCommand(click.Command):
    """A command whose options' defaults come from the configuration file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the file, then the arguments. Raises click.UsageError."""
        if not ctx.resilient_parsing:
            options = [param for param in self.params if isinstance(param, click.Option)]
            ctx.default_map = load_config(config_file(), options)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The flags, then the settings that have none."""
        super().format_options(ctx, formatter)
        write_named(self, ctx, formatter)


_CONVERSATION = options(
    option("-c", "--continue", "continue_last", is_flag=True, help="Continue the last one."),
    option("--session", metavar="ID", help="Continue this one (or a prefix of its id)."),
    option("-s", "--system", metavar="TEXT", help="System message of a new conversation."),
    option(
        "--db",
        "database",
        metavar="FILE",
        show_default="sessions.db in RADIXCHAT_DATA_DIR, or else in the platform's data folder",
        help="Where conversations are kept.",
    ),
)
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(ChatSettings)}
_MODEL = options(
    option(
        "-m",
        "--model",
        metavar="NAME",
        show_default="smollm2-135m",
        help="A model's name, a hub id, a .gguf file, or a folder.",
    ),
    count("--page-size", show_default="16", help="Tokens in a page of the cache."),
    count(
        "--pool-tokens",
        show_default="four contexts, at most a quarter of the memory",
        help="Tokens that the cache holds.",
    ),
    option("--no-cache", is_flag=True, help="Compute every prompt from its start."),
    option(
        "--eviction",
        type=click.Choice(EVICTION_POLICIES),
        default=_DEFAULTS["eviction"],
        show_default=True,
        help="Which prompts a full cache forgets first.",
    ),
    count(
        "--threads",
        show_default="all cores",
        help="CPU threads; more than there are cores is slow.",
    ),
    option(
        "--device",
        type=click.Choice(DEVICES),
        default=_DEFAULTS["device"],
        show_default=True,
        help="Where to compute; auto: on the GPU if there is one.",
    ),
    option(
        "--weights",
        type=click.Choice(WEIGHTS),
        default=_DEFAULTS["weights"],
        show_default=True,
        help="auto: a GGUF's bits as they are, 32 otherwise; int8: at most 8 bits.",
    ),
    option(
        "--kv",
        type=click.Choice(KV_FORMATS),
        default=_DEFAULTS["kv"],
        show_default=True,
        help="int8: a cache of nearly four times the tokens, slightly rounded.",
    ),
    option(
        "--exact/--no-exact",
        default=None,
        show_default="exact on the CPU",
        help="The same tokens give the same bits, cached or not, alone or beside others. On the CPU"
        " --no-exact is for comparison: torch's own arithmetic, several times slower.",
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
@_MODEL
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
    if values["model"] is None:
        from radixchat.engine.model_store import DEFAULT_MODEL

        values["model"] = DEFAULT_MODEL
    nearness = {
        name: _NEARNESS.index(source)
        for name in values
        if (source := ctx.get_parameter_source(name)) is not None
    }
    answer = take_answer(values, nearness)
    database = values.pop("database")
    prefix_cache = not values.pop("no_cache")
    return ChatSettings(
        database=database_file() if database is None else Path(database).expanduser(),
        answer=answer,
        prefix_cache=prefix_cache,
        **values,
    )


_NEARNESS = (
    ParameterSource.COMMANDLINE,
    ParameterSource.ENVIRONMENT,
    ParameterSource.DEFAULT_MAP,
    ParameterSource.DEFAULT,
)
