"""`radixchat sessions`: list, search, export, import, verify, backup. Knows click; the store works.

Standard output has what a script wants: what is exported, the ids of what is imported, the problems
that are found, or a line per conversation of tab-separated id, turns, day and title (or how it
begins); on a terminal in columns under their names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.configured_command import ConfiguredCommand
from radixchat.chat_cli.control_characters import neutral_line, neutralise
from radixchat.chat_cli.engine_flags import database_flag, take_database
from radixchat.chat_cli.guard import guarded
from radixchat.chat_cli.table import show_rows
from radixchat.server.protocol import InvalidRequest

if TYPE_CHECKING:
    from radixchat.chat_cli.streams import Streams
    from radixchat.server.rows import ConversationRow
    from radixchat.server.store import Store

_HELP = """Conversations that are stored: found, copied, checked.

A server and chats may use the file meanwhile. Conversations of a server's clients are told apart
by --principal, a key's name or the principal that `radixchat keys list` shows; without it they are
your own.
"""
_SQLITE = b"SQLite format 3\0"
_PAGE = 100
_OWN = "local"
_COLUMNS = ("ID", "TURNS", "CHANGED", "TITLE")

_principal_flag = click.option(
    "--principal", metavar="NAME", default=_OWN, help="Whose conversations: a key's name, or an id."
)


@click.group(help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
def sessions() -> None:
    """Dispatch to a subcommand."""


@sessions.command("list", cls=ConfiguredCommand)
@_principal_flag
@database_flag
def list_sessions(principal: str, database: str | None) -> None:
    """List them, the last changed first."""

    def work(store: Store, streams: Streams) -> int:
        rows = [_row(row) for row in _all_of(store, _owner(store, principal))]
        show_rows(_COLUMNS, rows, to_terminal=streams.answers.is_terminal)
        if not rows:
            streams.notes.note("there is no conversation")
        return exit_codes.OK

    _run(work, database)


@sessions.command(cls=ConfiguredCommand)
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True)
@_principal_flag
@database_flag
def search(words: tuple[str, ...], limit: int, principal: str, database: str | None) -> None:
    """Find messages.

    They have all WORDS, or words that begin so; "a phrase" is found as it is.
    """

    def work(store: Store, streams: Streams) -> int:
        owner = _owner(store, principal)
        for hit in store.search(" ".join(words), principal=owner, limit=limit):
            click.echo(f"{hit.conversation}\t{hit.role}\t{neutral_line(hit.snippet)}")
        return exit_codes.OK

    _run(work, database)


@sessions.command(cls=ConfiguredCommand)
@click.argument("ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All conversations.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["json", "markdown", "llm"]),
    default="json",
    show_default=True,
    help="json: all of it, a line each; markdown: to be read; llm: its logs.db.",
)
@click.option("-o", "--output", metavar="FILE", help="A new file, which only you can read.")
@_principal_flag
@database_flag
def export(
    ids: tuple[str, ...],
    everything: bool,
    kind: str,
    output: str | None,
    principal: str,
    database: str | None,
) -> None:
    """Write conversations out.

    Those that begin with one of IDS; without any the one used last.
    """
    if everything and ids:
        raise click.UsageError("--all and IDS say different things")
    if kind == "llm" and output is None:
        raise click.UsageError("a logs.db is a file: name it with -o")

    def work(store: Store, streams: Streams) -> int:
        owner = _owner(store, principal)
        chosen = _chosen(store, ids, everything, owner)
        if output is None:
            for conversation in chosen:
                text = store.export(conversation, principal=owner, kind=kind)
                shown = neutralise(text) if streams.answers.is_terminal else text
                click.echo(shown.rstrip("\n") + ("\n" if kind == "markdown" else ""))
            return exit_codes.OK
        path = Path(output).expanduser()
        if kind == "llm":
            turns = store.export_llm(path, chosen, principal=owner)
            streams.notes.note(f"{len(chosen)} conversations, {turns} turns")
            return exit_codes.OK
        from radixchat.server.new_file import new_file

        with new_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
            for conversation in chosen:
                text = store.export(conversation, principal=owner, kind=kind)
                file.write(text.rstrip("\n") + ("\n\n" if kind == "markdown" else "\n"))
        return exit_codes.OK

    _run(work, database)


@sessions.command("import", cls=ConfiguredCommand)
@click.argument("file")
@_principal_flag
@database_flag
def import_sessions(file: str, principal: str, database: str | None) -> None:
    """Read conversations in.

    FILE is what `export` wrote as json (- is standard input), or a logs.db of llm.

    What is there already stays as it is. Read only files of somebody you trust: they say which
    tokens the model sees.
    """

    def work(store: Store, streams: Streams) -> int:
        owner = _owner(store, principal)
        path = Path(file).expanduser()
        if file != "-" and not path.exists():
            raise InvalidRequest(f"there is no file {path}")
        content = sys.stdin.buffer.read() if file == "-" else path.read_bytes()
        if content.startswith(_SQLITE):
            logs = store.import_llm_logs(path, principal=owner)
            made, here = list(logs.conversations), logs.num_here
            if logs.num_left_out:
                streams.notes.note(f"{logs.num_left_out} parts that are no text were left out")
        else:
            made, here = _import_lines(store, content, owner)
        for conversation in made:
            click.echo(conversation)
        if here:
            were = "conversation was" if here == 1 else "conversations were"
            streams.notes.note(f"{here} {were} here already")
        return exit_codes.OK

    _run(work, database, may_be_new=True)


@sessions.command(cls=ConfiguredCommand)
@database_flag
def verify(database: str | None) -> None:
    """Check the whole file.

    Its pages, each message's content, what belongs to what and to whom.
    """

    def work(store: Store, streams: Streams) -> int:
        problems = store.verify()
        for problem in problems:
            click.echo(neutral_line(problem))
        if problems:
            streams.notes.error(f"{len(problems)} problems")
            return exit_codes.ERROR
        streams.notes.note("all is well")
        return exit_codes.OK

    _run(work, database)


@sessions.command(cls=ConfiguredCommand)
@click.argument("file")
@database_flag
def backup(file: str, database: str | None) -> None:
    """Copy the whole database to a new FILE.

    It may be in use meanwhile. Only you can read the copy.
    """

    def work(store: Store, streams: Streams) -> int:
        store.backup(Path(file).expanduser())
        return exit_codes.OK

    _run(work, database)


def _owner(store: Store, name: str) -> str:
    """The principal of that id, or of the newest key of that name."""
    keys = store.keys.list()
    if name == _OWN or any(key.principal == name for key in keys):
        return name
    return next((key.principal for key in reversed(keys) if key.name == name), name)


def _row(row: ConversationRow) -> tuple[str, ...]:
    day = datetime.fromtimestamp(row.updated_at, UTC).date().isoformat()
    return (row.id, str(row.num_turns), day, neutral_line(row.heading))


def _all_of(store: Store, principal: str) -> Sequence[ConversationRow]:
    rows: list[ConversationRow] = []
    while True:
        after = rows[-1].id if rows else None
        page = store.conversations(principal=principal, limit=_PAGE, after=after)
        rows += page
        if len(page) < _PAGE:
            return rows


def _chosen(store: Store, ids: Sequence[str], everything: bool, principal: str) -> list[str]:
    """The full ids meant. Raises ConversationNotFound, InvalidRequest."""
    if everything:
        return [row.id for row in _all_of(store, principal)]
    if ids:
        return [store.resolve(id_, principal=principal) for id_ in ids]
    latest = store.latest(principal=principal)
    if latest is None:
        raise InvalidRequest("no conversation was used yet; name one, or --all")
    return [latest]


def _import_lines(store: Store, content: bytes, principal: str) -> tuple[list[str], int]:
    """What the documents, a line each, became; and how many were here already."""
    made, here = list[str](), 0
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            imported = store.import_json(line.decode(), principal=principal)
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"line {number} is neither UTF-8 nor a logs.db") from error
        except InvalidRequest as error:
            raise InvalidRequest(f"line {number}: {error}") from error
        if imported is None:
            here += 1
        else:
            made.append(imported)
    return made, here


def _run(
    work: Callable[[Store, Streams], int], database: str | None, *, may_be_new: bool = False
) -> None:
    """Do the work with the database and exit with its code; an error is shown."""
    from radixchat.chat_cli.interrupts import Interrupts
    from radixchat.chat_cli.streams import Streams
    from radixchat.server.store import Store

    streams = Streams.of_this_process(json=True, ids=False)
    path = take_database({"database": database})

    def with_store() -> int:
        if not may_be_new and not path.exists():
            raise InvalidRequest(f"there is no database {path}")
        with Store(path) as store:
            return work(store, streams)

    with Interrupts(interrupt_leaves=True):
        code = guarded(with_store, streams.notes.error)
    raise SystemExit(code)
