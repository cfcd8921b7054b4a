"""The command line that goes on with a conversation. Knows the settings, and nobody who is told."""

from __future__ import annotations

import shlex

from radixchat.chat_cli.paths import database_file
from radixchat.chat_cli.server_address import shown_url
from radixchat.chat_cli.settings import ChatSettings


def way_back(conversation: str, settings: ChatSettings) -> str:
    """For a shell; a server is named by its address, a file only where it is not the usual one."""
    command = f"radixchat chat --session {conversation}"
    if settings.url is not None:
        return f"{command} --url {shlex.quote(shown_url(settings.url))}"
    if settings.database == database_file():
        return command
    return f"{command} --db {shlex.quote(str(settings.database))}"
