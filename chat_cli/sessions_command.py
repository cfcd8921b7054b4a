"""`radixchat sessions`: the group, and the verbs that need the file: import, verify, backup.

Standard output has what a script wants: what is shown or exported, the ids of what is imported,
forked or deleted, the problems that are found, or a line per conversation of tab-separated id,
turns, day and title (or how it begins); on a terminal in columns under their names.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.configured_command import ConfiguredCommand
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.conversation_source import owner
from radixchat.chat_cli.engine_flags import database_flag
from radixchat.chat_cli.sessions_change import delete, fork
from radixchat.chat_cli.sessions_read import export, list_sessions, search, show
from radixchat.chat_cli.sessions_run import principal_flag, run_on_file
from radixchat.chat_cli.shell_completion import files
from radixchat.server.protocol import InvalidRequest

if TYPE_CHECKING:
    from radixchat.chat_cli.streams import Streams
    from radixchat.server.store import Store

_HELP = """Conversations that are stored: found, shown, copied, sorted out, checked.

Servers and chats may use them meanwhile. Conversations of a server's clients are told apart by
--principal, a key's name or the principal that `radixchat keys list` shows; without it they are
your own. With --url they are those of a server, and of the key that is given.

A conversation is meant by its id, of which 4 characters do, by its name, or by how that begins.
"""
_SQLITE = b"SQLite format 3\0"


@click.group(
    help=_HELP,
    commands=[list_sessions, show, search, export, delete, fork],
    context_settings={"help_option_names": ["-h", "--help"]},
)
def sessions() -> None:
    """Dispatch to a subcommand."""


@sessions.command("import", cls=ConfiguredCommand)
@click.argument("file", shell_complete=files)
@principal_flag
@database_flag
def import_sessions(file: str, principal: str, database: str | None) -> None:
    """Read conversations in.

    FILE is what `export` wrote as json (- is standard input), or a logs.db of llm.

    What is there already stays as it is. Read only files of somebody you trust: they say which
    tokens the model sees.
    """

    def work(store: Store, streams: Streams) -> int:
        whose = owner(store, principal)
        path = Path(file).expanduser()
        if file != "-" and not path.exists():
            raise InvalidRequest(f"there is no file {path}")
        content = sys.stdin.buffer.read() if file == "-" else path.read_bytes()
        if content.startswith(_SQLITE):
            logs = store.import_llm_logs(path, principal=whose)
            made, here = list(logs.conversations), logs.num_here
            if logs.num_left_out:
                streams.notes.note(f"{logs.num_left_out} parts that are no text were left out")
        else:
            made, here = _import_lines(store, content, whose)
        for conversation in made:
            click.echo(conversation)
        if not made and not here:
            streams.notes.note(f"nothing was imported: {file} has no conversation")
        if here:
            were = "conversation was" if here == 1 else "conversations were"
            streams.notes.note(f"{here} {were} here already")
        return exit_codes.OK

    run_on_file(database, work, may_be_new=True)


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

    run_on_file(database, work)


@sessions.command(cls=ConfiguredCommand)
@click.argument("file", shell_complete=files)
@database_flag
def backup(file: str, database: str | None) -> None:
    """Copy the whole database to a new FILE.

    It may be in use meanwhile. Only you can read the copy.
    """

    def work(store: Store, streams: Streams) -> int:
        store.backup(Path(file).expanduser())
        return exit_codes.OK

    run_on_file(database, work)


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
