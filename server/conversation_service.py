"""`ConversationService`: one principal's conversations: made, found, changed, forgotten.

Owns what follows for the cache when a conversation's path changes. Knows no turn and no socket.
Every method is called on one event loop.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from radixchat.engine.common_prefix import common_prefix
from radixchat.engine.hint import Prefetch, Purge, Supersede
from radixchat.server.cache_view import CacheView
from radixchat.server.conversation import Conversation
from radixchat.server.conversation_reader import ConversationReader
from radixchat.server.heading import check_title
from radixchat.server.protocol import ConversationView, MessageView, TreeMessage
from radixchat.server.rows import NO_METADATA, ForgottenPath
from radixchat.server.store_conversation import check_metadata
from radixchat.server.turn_place import load_path

if TYPE_CHECKING:
    from radixchat.server.host import ChatHost


class ConversationService(ConversationReader):
    """What can be done to one principal's conversations without answering in them.

    Raises InvalidRequest, ConversationNotFound, ConversationLocked, ResponseNotFound and
    StoreError; then nothing has changed.
    """

    def __init__(self, host: ChatHost, principal: str, namespace: bytes) -> None:
        """namespace: the root under which the principal's KV is cached."""
        super().__init__(host.store, principal, host.database)
        self.namespace = namespace
        self.host = host
        self._cache = CacheView(host, namespace)

    async def create_conversation(
        self,
        system: str | None = None,
        title: str = "",
        metadata: Mapping[str, str] = NO_METADATA,
        *,
        kept: bool = True,
    ) -> str:
        """A new, empty conversation; the system message, if any, heads it.

        kept: False for one that no list shows, and that is deleted with this process.
        """
        return await self.host.database(
            self._store.create_conversation,
            principal=self.principal,
            system=system,
            title=title,
            metadata=metadata,
            listed=kept,
            kept=kept,
        )

    async def update_conversation(
        self,
        conversation: str,
        *,
        title: str | None = None,
        metadata: Mapping[str, str] | None = None,
        system: str | None = None,
        tip: str | None = None,
        expected_tip: str | None = None,
    ) -> ConversationView:
        """Change what is given. tip: the message, or response, to go on from: another branch.

        system: the system message; what was said is the same, but is computed again after it. "":
        none. expected_tip: where the tip is another than this, ConversationLocked is raised.
        """
        check_title(title or "")
        check_metadata(metadata or NO_METADATA)
        if tip is not None:
            path = await self._path(conversation)
            expected = path.tip if expected_tip is None else expected_tip
            new = await self._message(tip)
            await self._move(path, expected, new)
        if system is not None:
            await self._set_system(await self._path(conversation), system or None)
        update = functools.partial(self._store.update_conversation, principal=self.principal)
        row = await self.host.database(update, conversation, title=title, metadata=metadata)
        return row.view()

    async def delete_conversation(self, conversation: str) -> None:
        """Its rows and what only it had in the cache. A turn that runs in it is cancelled first."""
        running = (await self.conversation(conversation)).running
        beside = await self.host.database(self._store.running_siblings, conversation)
        for response in (running, *beside):
            if response is not None and (live := self.host.live(response)) is not None:
                await live.stop()
        paths = await self.host.database(
            self._store.delete_conversation, conversation, principal=self.principal
        )
        self._cache.drop_draft(conversation)
        await self._purge(conversation, paths)

    async def open_conversation(self, conversation: str) -> None:
        """Somebody is about to go on with it: what is kept of it below the pool is read ahead."""
        if not self.host.has_tiers:
            return
        tokens = self.host.prompts.stored_ids(await self._path(conversation))
        if tokens:
            self.host.engine.hint(Prefetch(tokens, self.namespace))

    async def fork_conversation(
        self, conversation: str, *, at: str | None = None, title: str = "", kept: bool = True
    ) -> ConversationView:
        """Another conversation that goes on from the tip, or from a message or response `at`.

        Nothing is copied. kept: as of create_conversation.
        """
        row = await self.conversation(conversation)
        tip = row.tip if at is None else await self._message(at)
        fork = await self.host.database(
            self._store.create_conversation,
            principal=self.principal,
            title=title,
            tip=tip,
            listed=kept,
            kept=kept,
        )
        return await self.conversation(fork)

    async def tree(self, conversation: str, *, warmth: bool = False) -> list[TreeMessage]:
        """Every message that the conversation has passed, parents first.

        warmth: with each one's tokens, and how many of these are cached.
        """
        tree = await super().tree(conversation)
        if not warmth:
            return tree
        passed = await self.host.database(
            self._store.passed, conversation, principal=self.principal
        )
        return await self._cache.warm(tree, passed)

    async def undo(self, conversation: str) -> MessageView:
        """Take the last turn off the conversation; returns the user's message of it.

        Nothing is erased: the messages stay in the tree. Raises InvalidRequest without a turn.
        """
        path = await self._path(conversation)
        await self._move(path, path.tip, path.before_last_turn().tip)
        undone = path.last_user
        assert undone is not None
        return MessageView(undone.id, undone.role, undone.text, undone.status)

    async def _path(self, conversation: str) -> Conversation:
        return await self.host.database(load_path, self._store, self.principal, conversation)

    async def _move(self, path: Conversation, expected: str | None, new: str | None) -> None:
        """Move the tip, and tell the cache which branch nobody is about to ask for again."""
        move = functools.partial(self._store.move_tip, principal=self.principal)
        await self.host.database(move, path.id, expected=expected, new=new)
        left = self.host.prompts.stored_ids(path) or ()
        start = common_prefix(left, (await self._path(path.id)).token_ids)
        if start < len(left):
            self.host.engine.hint(Supersede(left, start, path.id, self.namespace))

    async def _set_system(self, path: Conversation, system: str | None) -> None:
        change = functools.partial(self._store.set_system, principal=self.principal)
        await self.host.database(change, path.id, expected_tip=path.tip, system=system)
        left = self.host.prompts.stored_ids(path) or ()
        if left and system != path.system:
            self.host.engine.hint(Supersede(left, 0, path.id, self.namespace))

    async def _purge(self, conversation: str, paths: Sequence[ForgottenPath]) -> None:
        for path in paths:
            purge = Purge(path.token_ids, conversation, self.namespace, path.start)
            await self.host.engine.purge(purge)
        await self.host.forget_on_disk(self.principal, paths)
