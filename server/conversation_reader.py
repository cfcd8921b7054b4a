"""`ConversationReader`: what is stored of one principal's conversations. Changes nothing of them.

Needs no engine and no tokenizer, so that it can be read before there is a model, and without one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from radixchat.server.store import Store
from radixchat.server.views import ConversationView, MessageView, SearchHit, TreeMessage

P = ParamSpec("P")
T = TypeVar("T")


class StoreCall(Protocol):
    """Calls a method of a store on the thread that it is used on."""

    async def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns or raises; EngineStopped once the store is closed."""


class ConversationReader:
    """One principal's stored conversations.

    Every method may raise ConversationNotFound, EngineStopped and StoreError. What a killed process
    has left running in a conversation has ended when it is read.
    """

    def __init__(self, store: Store, principal: str, call: StoreCall) -> None:
        self.principal = principal
        self._store = store
        self._call = call

    async def latest_conversation(self) -> str | None:
        """The conversation used last, in any process."""
        return await self._call(self._store.latest, principal=self.principal)

    async def resolve_conversation(self, id_or_prefix: str) -> str:
        """The full id. Raises ConversationNotFound, saying whether none or several match."""
        return await self._call(self._store.resolve, id_or_prefix, principal=self.principal)

    async def conversation(self, conversation: str) -> ConversationView:
        """What is known of it."""

        def load() -> ConversationView:
            self._store.settle(conversation)
            return self._store.conversation(conversation, principal=self.principal).view()

        return await self._call(load)

    async def conversations(
        self, limit: int = 20, after: str | None = None
    ) -> list[ConversationView]:
        """The last changed first; after: those that follow that one."""
        rows = await self._call(
            self._store.conversations, principal=self.principal, limit=limit, after=after
        )
        return [row.view() for row in rows]

    async def messages(self, conversation: str) -> list[MessageView]:
        """The messages on the path to the tip, oldest first."""

        def load() -> list[MessageView]:
            self._store.settle(conversation)
            tip = self._store.conversation(conversation, principal=self.principal).tip
            path = self._store.path(tip, principal=self.principal)
            return [MessageView(m.id, m.role, m.text, m.status) for m in path]

        return await self._call(load)

    async def tree(self, conversation: str, *, warmth: bool = False) -> list[TreeMessage]:
        """Every message that the conversation has passed, parents first.

        warmth: nothing is cached where nothing is computed; with it no more is known here.
        """
        return await self._call(self._store.tree, conversation, principal=self.principal)

    async def search(self, query: str, limit: int = 20) -> list[SearchHit]:
        """Messages of listed conversations that have these words, the best first."""
        return await self._call(self._store.search, query, principal=self.principal, limit=limit)

    async def export(self, conversation: str, kind: str) -> str:
        """The conversation as "json", all of its branches, or as "markdown", its path."""
        return await self._call(
            self._store.export, conversation, principal=self.principal, kind=kind
        )

    async def _message(self, message_or_response: str) -> str:
        """The message of that id, or the one that a response of that id has ended with."""
        if not message_or_response.startswith("resp_"):
            return message_or_response
        row = await self._call(self._store.response, message_or_response, principal=self.principal)
        return row.answer or row.question
