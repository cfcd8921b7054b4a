"""`ConversationSource`: conversations to look at and to sort out, in a file or at a server.

A part of `ChatClient`, for who answers nothing: no model is loaded for it. Owns who they are found
by; what has them, in a file or over a socket, is imported only where it is used.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from radixchat.chat_cli.conversation_names import (
    HasConversations,
    all_conversations,
    meant,
    named,
)
from radixchat.chat_cli.paths import disk_cache_folder
from radixchat.server.local_principal import LOCAL_PRINCIPAL
from radixchat.server.protocol import (
    ConversationNotFound,
    ConversationView,
    InvalidRequest,
    MessageView,
    SearchHit,
    TreeMessage,
)

if TYPE_CHECKING:
    from radixchat.server.store import Store


class ConversationSource(HasConversations, Protocol):
    """What is refused is raised as a RadixChatError."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What to tell once at the start."""

    async def conversation(self, conversation: str) -> ConversationView:
        """What is known of it."""

    async def latest_conversation(self) -> str | None:
        """The conversation used last."""

    async def resolve_conversation(self, id_or_prefix: str) -> str:
        """The full id. Raises ConversationNotFound: unknown or ambiguous."""

    async def delete_conversation(self, conversation: str) -> None:
        """With what only it had."""

    async def fork_conversation(
        self, conversation: str, *, at: str | None = None, title: str = ""
    ) -> ConversationView:
        """Another conversation that goes on from the tip, or from a message or response `at`."""

    async def messages(self, conversation: str) -> list[MessageView]:
        """The path at the conversation's tip, oldest first."""

    async def tree(self, conversation: str) -> list[TreeMessage]:
        """Every message that the conversation has passed, parents first."""

    async def search(self, query: str, limit: int = 20) -> list[SearchHit]:
        """Messages of all conversations that have these words, the best first."""

    async def export(self, conversation: str, kind: str) -> str:
        """The conversation as "json", all of its branches, or as "markdown", its path."""


def open_existing(path: Path) -> Store:
    """The database, which is not made. Raises InvalidRequest: there is none; StoreError."""
    from radixchat.server.store import Store

    if not path.exists():
        raise InvalidRequest(f"there is no database {path}")
    return Store(path)


@contextlib.asynccontextmanager
async def stored(path: Path, principal: str) -> AsyncIterator[ConversationSource]:
    """Those in a file; principal: an id, or a key's name. Raises InvalidRequest: no such file."""
    from radixchat.server.stored_conversations import StoredConversations

    with open_existing(path) as store:
        yield StoredConversations(store, owner(store, principal), disk_cache_folder())


@contextlib.asynccontextmanager
async def served(url: str, key: str | None) -> AsyncIterator[ConversationSource]:
    """Those at a server. Entering raises ServerUnreachable or KeyRefused."""
    from radixchat.chat_cli.async_client import AsyncChatClient

    async with AsyncChatClient(url, key=key) as client:
        yield client


async def find(source: ConversationSource, name: str) -> str:
    """The id of the conversation that is meant: by its id, its name, or by how one of them begins.

    Raises ConversationNotFound where there is none; InvalidRequest where there are several.
    """
    try:
        return await source.resolve_conversation(name)
    except ConversationNotFound as error:
        views = await all_conversations(source)
        if not meant(name, views):
            raise error from None
    return named(name, views).id


def owner(store: Store, name: str) -> str:
    """The principal of that id, or of the newest key of that name."""
    keys = store.keys.list()
    if name == LOCAL_PRINCIPAL or any(key.principal == name for key in keys):
        return name
    return next((key.principal for key in reversed(keys) if key.name == name), name)
