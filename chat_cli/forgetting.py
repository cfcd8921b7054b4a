"""`--no-log`: what a chat has made is gone when the chat ends. Knows neither its turns nor its end.

A process that is killed outright (SIGKILL) forgets nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from radixchat.chat_cli.client import ChatClient
from radixchat.chat_cli.notes import Notes
from radixchat.server.protocol import ConversationNotFound, RadixChatError


async def forget(client: ChatClient, conversations: Iterable[str], notes: Notes) -> None:
    """Delete them all; one that cannot be deleted is told, with how to do it."""
    for conversation in conversations:
        try:
            await client.delete_conversation(conversation)
        except ConversationNotFound:
            continue  # /delete was here before
        except RadixChatError as error:
            notes.error(
                f"{error}; what was said is still there, "
                f"`radixchat sessions delete {conversation}` forgets it"
            )
