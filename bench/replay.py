"""`radixchat bench replay`: how well a prefix cache would serve a trace of traffic.

Owns the command line: what is asked, what is refused before anything is computed, and what is
printed. `replay_run.py` does the work.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from radixchat.bench.capacity import parse_tokens
from radixchat.bench.engines import ENGINE_NAMES
from radixchat.bench.name_list import name_list
from radixchat.bench.replay_json import replay_json
from radixchat.bench.replay_progress import progress_on
from radixchat.bench.replay_result import ReplayResult
from radixchat.bench.replay_run import ReplayPlan, replay
from radixchat.bench.replay_table import replay_text
from radixchat.bench.report import write_report
from radixchat.bench.trace import BUILT_IN_TOKENIZER, FORMATS, Trace, TraceError, open_trace
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.engine.errors import ModelLoadError
from radixchat.radix.policies import POLICY_NAMES

_PAGE_SIZE = 16
_POLICIES = ("lru", "chat")
_ARGUMENTS = f"{__name__}.arguments"
CHATS = "messages"
"""The format whose lines are whole chats."""
FORMATS_EPILOG = """
\b
Formats of TRACE, an example line each:
\b
mooncake: a request, its prompt as hashes of blocks
  {"hash_ids":[0,1,2],"input_length":1300,"timestamp":27000}
  Optional: timestamp, conversation, turn; block_size (tokens of a block, in
  the first line; else deduced). Hashes are all whole numbers or all text.
\b
messages: a whole chat; each of its questions is a request
  {"id":"c1","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello!"}]}
  Optional: id or conversation, time. Or as ShareGPT has it:
  {"conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello!"}]}
\b
tokens: a request as token ids, or an event between requests
  {"time":3.5,"conversation":"c1","tokens":[1,2,3],"output":[4,5]}
  {"time":9.0,"conversation":"c1","event":"closed"}
  Optional: time, output; of a request also conversation, turn (1, 2, ...) and
  superseded (from which token on it replaces what its conversation had).
  Events: queued, connected, away, disconnected, typing, closed.
\b
Times: a number in milliseconds (mooncake) or seconds (the others), or a date
in ISO 8601; on every line or on none. time may be called timestamp, and
conversation conversation_id, session, session_id or chat_id.
"""


def _capacities(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[int | None, ...] | None:
    """Reads numbers of tokens separated by commas; ascending, none twice, no limit last."""
    if value is None:
        return None
    try:
        sizes = {parse_tokens(text) for text in value.split(",")}
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return tuple(sorted(sizes, key=lambda size: float("inf") if size is None else size))


class _Replay(click.Command):
    """A command that remembers how it was called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


@click.command(
    cls=_Replay,
    short_help="How well a prefix cache would serve a trace of your traffic.",
    epilog=FORMATS_EPILOG,
)
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--format",
    "trace_format",
    type=click.Choice(["auto", *FORMATS]),
    default="auto",
    show_default=True,
    help="What the trace's lines are.",
)
@click.option(
    "--capacity",
    "capacities",
    metavar="TOKENS,…",
    callback=_capacities,
    help="Cache sizes in tokens: 512k,1M,2.5M,inf.  [default: 5, 10, 20 and 50 % of the distinct"
    " tokens, or what the largest request needs]",
)
@click.option(
    "--policy",
    "policies",
    metavar="NAME,…",
    callback=name_list(POLICY_NAMES),
    help=f"Of our own cache: {', '.join(POLICY_NAMES)}.  [default: lru,chat]",
)
@click.option(
    "--engine",
    "engines",
    metavar="NAME,…",
    callback=name_list(ENGINE_NAMES),
    default="ours",
    show_default=True,
    help=f"Whose cache: {', '.join(ENGINE_NAMES)}; all but ours are simulations.",
)
@click.option(
    "--page-size",
    type=click.IntRange(min=1),
    help="Tokens in a page; a block-hash trace has its own.  [default: 16]",
)
@click.option(
    "--tokenizer",
    metavar="NAME",
    help="Of chats: a model's name, a .gguf file or a folder.  [default: a built-in one, words]",
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    help="So many chats take turns, as the trace does not tell who spoke when.  [default: 1]",
)
@click.option("--last-turn", is_flag=True, help="Of each chat only the last turn is a request.")
@click.option("--prompts-only", is_flag=True, help="The KV of replies is not kept.")
@click.option("--namespace-by", metavar="FIELD", help="The field that tells tenants apart.")
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON.")
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write one self-contained page with the curves.",
)
def main(
    trace: str,
    trace_format: str,
    capacities: tuple[int | None, ...] | None,
    policies: tuple[str, ...] | None,
    engines: tuple[str, ...],
    page_size: int | None,
    tokenizer: str | None,
    concurrency: int | None,
    last_turn: bool,
    prompts_only: bool,
    namespace_by: str | None,
    as_json: bool,
    html: Path | None,
) -> None:
    """Run the traffic of TRACE through prefix caches of several sizes.

    No GPU and no model is needed. TRACE has a JSON object per line, plain or packed by gzip, xz
    or bzip2; - is standard input. Its lines are hashes of blocks (hash_ids), chats (messages) or
    token ids; the end of this help shows each. Rates are fractions of the input tokens.

    Each cache stands beside an infinite one, the best possible of its size (it knows the future)
    and an independent LRU. A damaged line is told by its number; then the exit code is 1.
    """
    if policies is not None and "ours" not in engines:
        raise click.UsageError("--policy is for the engine `ours`, which --engine leaves out")
    _check_turns(last_turn, concurrency or 1)
    _check_report(html, trace)
    try:
        opened = open_trace(
            trace,
            trace_format,
            tokenizer=tokenizer or BUILT_IN_TOKENIZER,
            keep_replies=not prompts_only,
            namespace_by=namespace_by,
            concurrency=concurrency or 1,
            last_turn=last_turn,
        )
        for_chats = {
            "--tokenizer": tokenizer,
            "--concurrency": concurrency,
            "--last-turn": last_turn,
        }
        _check_chats(opened, [name for name, value in for_chats.items() if value])
        in_turn = None if last_turn or opened.format != CHATS else concurrency or 1
        size = _units_of_a_page(opened, page_size)
        command = _command_line(click.get_current_context(), (trace, tokenizer), html)
        plan = ReplayPlan(capacities, engines, policies or _POLICIES, size, in_turn, command)
        _check_capacities(plan, opened)
        with progress_on(sys.stderr) as watch:
            result = replay(opened, plan, watch)
    except (TraceError, ModelLoadError) as error:
        raise click.ClickException(neutral_line(str(error))) from error
    _show(result, as_json, html)


def _show(result: ReplayResult, as_json: bool, html: Path | None) -> None:
    """Write the report, then the table, then the line of JSON."""
    failure = None
    if html is not None:
        try:
            write_report(html, result)
        except OSError as error:
            # Told at the end: what was computed is shown first.
            failure = click.ClickException(f"{html} cannot be written: {error.strerror}")
    click.echo(replay_text(result))
    if as_json:
        click.echo(replay_json(result))
    if failure is not None:
        raise failure


def _command_line(context: click.Context, sources: Sequence[str | None], html: Path | None) -> str:
    """How the command was called, for a shell. A report may be mailed: files lose their folders.

    sources: what was opened, a file or not.
    """
    files = {html, *(Path(each) for each in sources if each and Path(each).exists())}
    words = []
    for word in context.meta[_ARGUMENTS]:
        option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        name = Path(value).name if Path(value) in files else value
        words.append(f"{option}{equals}{name}")
    return shlex.join([*context.command_path.split(), *words])


def _check_turns(last_turn: bool, concurrency: int) -> None:
    """Refuse chats that would take turns with a single one each."""
    if last_turn and concurrency > 1:
        raise click.UsageError(
            f"--concurrency {concurrency}: with --last-turn each chat is one request, so that none"
            " take turns; leave one of the two out"
        )


def _check_chats(trace: Trace, options: list[str]) -> None:
    """Refuse what only a trace of chats can be asked for."""
    if options and trace.format != CHATS:
        raise click.UsageError(
            f"{options[0]} is for traces of chats; {trace.name} is one of the format {trace.format}"
        )


def _units_of_a_page(trace: Trace, page_size: int | None) -> int:
    if trace.unit_tokens == 1:
        return page_size or _PAGE_SIZE
    if page_size not in (None, trace.unit_tokens):
        raise click.UsageError(
            f"--page-size {page_size}: {trace.name} is replayed at its own block size,"
            f" {trace.unit_tokens} tokens; leave the option out"
        )
    return 1


def _check_capacities(plan: ReplayPlan, trace: Trace) -> None:
    """Refuse a cache that holds no page."""
    page_tokens = plan.page_size * trace.unit_tokens
    for capacity in plan.capacities or ():
        if capacity is not None and capacity < page_tokens:
            raise click.UsageError(
                f"--capacity {capacity}: a page has {page_tokens} tokens; a cache must hold one"
            )


def _check_report(path: Path | None, trace: str) -> None:
    """Refuse a report that could not be written, or would be written over the trace."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise click.UsageError(f"--html {path}: there is no folder {path.parent}")
    if path.exists() and trace != "-" and path.samefile(trace):
        raise click.UsageError(f"--html {path}: that is the trace itself")


if __name__ == "__main__":
    main()
