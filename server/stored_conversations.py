"""`StoredConversations`: one principal's conversations in a file, looked at and sorted out.

Answers nothing, and owns no thread: each call is done at once. Servers and chats may use the file
meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from radixchat.server.conversation_reader import ConversationReader
from radixchat.server.store import Store
from radixchat.server.views import ConversationView

P = ParamSpec("P")
T = TypeVar("T")


class StoredConversations(ConversationReader):
    """What can be done to them without a model."""

    notices: tuple[str, ...] = ()

    def __init__(self, store: Store, principal: str, disk_cache: Path | None = None) -> None:
        """disk_cache: the folder in which engines keep what they have computed."""
        super().__init__(store, principal, _at_once)
        self._disk_cache = disk_cache

    async def delete_conversation(self, conversation: str) -> None:
        """Of the file and the disk cache; the memory of a process that runs needs room first.

        Raises ConversationLocked while it is being answered.
        """
        paths = self._store.delete_conversation(conversation, principal=self.principal)
        if paths and self._disk_cache is not None and self._disk_cache.exists():
            from radixchat.engine.tiers.disk_forgetting import StoredPath, forget_on_disk

            stored = [StoredPath(path.token_ids, path.start) for path in paths]
            forget_on_disk(self._disk_cache, self._store.secret(), self.principal, stored)

    async def fork_conversation(
        self, conversation: str, *, at: str | None = None, title: str = ""
    ) -> ConversationView:
        """Another conversation that goes on from the tip, or from a message or response `at`."""
        row = await self.conversation(conversation)
        tip = row.tip if at is None else await self._message(at)
        fork = self._store.create_conversation(principal=self.principal, title=title, tip=tip)
        return await self.conversation(fork)

    async def export_llm(self, path: Path, conversations: Sequence[str]) -> int:
        """A new logs.db of llm; how many turns it has."""
        return self._store.export_llm(path, conversations, principal=self.principal)


async def _at_once(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)
