"""What a shell completes beside commands, flags and choices: files, models, conversations.

Asked by the shell's script while somebody types: nothing is loaded or fetched, and what cannot be
found out completes nothing.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from radixchat.chat_cli.control_characters import neutral_line
from radixchat.server.local_principal import LOCAL_PRINCIPAL
from radixchat.server.protocol import RadixChatError

_MOST = 100


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shell's own."""
    return [CompletionItem(incomplete, type="file")]


def installed_models(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Those that are here; or else a file, as a path is a model's name too."""
    from radixchat.engine.model_store import ModelStore

    try:
        names = [model.name for model in ModelStore.default().list()]
    except (RadixChatError, OSError):
        names = []
    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found or files(ctx, param, incomplete)


def conversations(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Ids of the database that the line names, or of the usual one; the last used first."""
    from radixchat.chat_cli.conversation_source import open_existing
    from radixchat.chat_cli.engine_flags import take_database

    if ctx.params.get("url"):
        return []  # a server is not asked while somebody types
    try:
        with open_existing(take_database({"database": ctx.params.get("database")})) as store:
            rows = store.conversations(principal=LOCAL_PRINCIPAL, limit=_MOST)
    except (RadixChatError, OSError):
        return []
    return [
        CompletionItem(row.id, help=neutral_line(row.heading))
        for row in rows
        if row.id.startswith(incomplete)
    ]
