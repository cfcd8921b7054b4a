"""How the verbs of `radixchat sessions` run: their shared flags, the streams, the exit code.

Knows no verb. Most work on a ConversationSource, in a file or at a server; a few need the file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from radixchat.chat_cli.conversation_source import (
    ConversationSource,
    open_existing,
    served,
    stored,
)
from radixchat.chat_cli.engine_flags import database_flag, take_database
from radixchat.chat_cli.flag import options
from radixchat.chat_cli.guard import run_guarded
from radixchat.chat_cli.server_flags import server_flags, take_server
from radixchat.chat_cli.value_types import Text
from radixchat.server.local_principal import LOCAL_PRINCIPAL

if TYPE_CHECKING:
    from radixchat.chat_cli.streams import Streams
    from radixchat.server.store import Store

principal_flag = click.option(
    "--principal",
    type=Text(),
    metavar="NAME",
    default=LOCAL_PRINCIPAL,
    help="Whose conversations: a key's name, or an id.",
)
place_flags = options(
    server_flags("The conversations at the server there, instead of a file's."),
    principal_flag,
    database_flag,
)
"""Decorates a verb with where the conversations are, and whose."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the conversations are: at a server, or in the database."""

    url: str | None
    key: str | None
    principal: str
    database: str | None

    @classmethod
    def take(cls, values: dict[str, Any]) -> Place:
        """From the parsed values, out of which they are taken. Raises click.UsageError."""
        context = click.get_current_context()
        take_server(context, values, ("principal", "database"), "a database here")
        return cls(*(values.pop(name) for name in ("url", "key", "principal", "database")))


def run_on(place: Place, work: Callable[[ConversationSource, Streams], Awaitable[int]]) -> None:
    """Do the work with the conversations there and exit with its code; an error is shown."""
    import asyncio

    async def run(streams: Streams) -> int:
        if place.url is not None:
            source = served(place.url, place.key)
        else:
            source = stored(take_database({"database": place.database}), place.principal)
        async with source as conversations:
            for notice in conversations.notices:
                streams.notes.note(notice)
            return await work(conversations, streams)

    # What is exported is read elsewhere: UTF-8.
    run_guarded(lambda streams: asyncio.run(run(streams)), json=True)


def run_on_file(
    database: str | None, work: Callable[[Store, Streams], int], *, may_be_new: bool = False
) -> None:
    """Do the work with the database and exit with its code; an error is shown."""
    from radixchat.server.store import Store

    path = take_database({"database": database})

    def with_store(streams: Streams) -> int:
        with Store(path) if may_be_new else open_existing(path) as store:
            return work(store, streams)

    run_guarded(with_store, json=True)
