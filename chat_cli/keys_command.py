"""`radixchat keys`: add, list, revoke. Knows click; the key store does the work.

Standard output has what a script wants: the new key, or for `list` a line per key of tab-separated
id, name, principal, kind, the day it was made, and whether it was revoked; on a terminal in columns
under their names.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.configured_command import ConfiguredCommand
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.chat_cli.engine_flags import database_flag, take_database
from radixchat.chat_cli.guard import run_guarded
from radixchat.chat_cli.table import show_rows
from radixchat.server.protocol import InvalidRequest

if TYPE_CHECKING:
    from radixchat.chat_cli.streams import Streams
    from radixchat.server.key_store import ApiKey, KeyStore

_HELP = """Keys of a server's clients.

From the first one on, `radixchat serve` wants one of every request: Authorization: Bearer KEY; also
when all are revoked. Each sees its own conversations and finds its own cached tokens only. The
database keeps no key, but a hash of it.
"""


@click.group(help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
def keys() -> None:
    """Dispatch to a subcommand."""


@keys.command(cls=ConfiguredCommand)
@click.argument("name")
@click.option(
    "--operator", is_flag=True, help="May also read /metrics and tell the server to drain."
)
@click.option(
    "--same-as", metavar="NAME", help="Opens what that key opens: the new one is to replace it."
)
@database_flag
def add(name: str, operator: bool, same_as: str | None, database: str | None) -> None:
    """Make a key and print it, this once."""

    def work(store: KeyStore, streams: Streams) -> int:
        principal = None if same_as is None else _find(store, same_as).principal
        click.echo(store.add(name, principal=principal, is_operator=operator))
        streams.notes.note("keep it well: only its hash is stored, nobody can tell it again")
        return exit_codes.OK

    _run(work, database)


@keys.command("list", cls=ConfiguredCommand)
@database_flag
def list_keys(database: str | None) -> None:
    """List the keys, the revoked ones too."""

    def work(store: KeyStore, streams: Streams) -> int:
        rows = [_row(key) for key in store.list()]
        show_rows(_COLUMNS, rows, to_terminal=streams.answers.is_terminal)
        if not rows:
            streams.notes.note("there is no key; `radixchat keys add NAME` makes one")
        return exit_codes.OK

    _run(work, database)


@keys.command(cls=ConfiguredCommand)
@click.argument("name")
@database_flag
def revoke(name: str, database: str | None) -> None:
    """Take a key back, by its name or id; what it opened stays where it is."""

    def work(store: KeyStore, streams: Streams) -> int:
        key = store.revoke(name)
        streams.notes.note(f"{key.name} opens nothing any more; open sockets end within seconds")
        return exit_codes.OK

    _run(work, database)


_COLUMNS = ("ID", "NAME", "PRINCIPAL", "KIND", "MADE", "STATE")


def _row(key: ApiKey) -> tuple[str, ...]:
    kind = "operator" if key.is_operator else "client"
    state = "good" if key.revoked_at is None else f"revoked {_day(key.revoked_at)}"
    return (key.id, neutral_line(key.name), key.principal, kind, _day(key.created_at), state)


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def _find(store: KeyStore, name: str) -> ApiKey:
    """The newest key of that name or id. Raises InvalidRequest."""
    found = [key for key in store.list() if name in (key.name, key.id)]
    if not found:
        raise InvalidRequest(f"there is no key {name!r}")
    return found[-1]


def _run(work: Callable[[KeyStore, Streams], int], database: str | None) -> None:
    """Do the work with the database's keys and exit with its code; an error is shown."""
    from radixchat.server.key_file import open_keys

    def with_keys(streams: Streams) -> int:
        with open_keys(take_database({"database": database})) as store:
            return work(store, streams)

    run_guarded(with_keys)
