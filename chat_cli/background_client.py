"""The conversations of this process, before there is a model that answers, and without one.

What is only read comes from the store; what needs the model waits for it. Knows no prompt.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from radixchat.chat_cli.background_model import BackgroundModel, News
from radixchat.chat_cli.backoff import Backoff
from radixchat.chat_cli.busy_wait import BusyWait
from radixchat.chat_cli.loading_thread import LoadingThread
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.local_principal import LOCAL_PRINCIPAL
from radixchat.server.protocol import (
    CacheReport,
    CacheTree,
    ConversationLocked,
    ConversationView,
    MessageView,
    RadixChatError,
    ResponseEvent,
    ResponseOptions,
    SearchHit,
    ServerDraining,
    TreeMessage,
)

if TYPE_CHECKING:
    from radixchat.server.conversation_reader import ConversationReader
    from radixchat.server.service import ChatService

_Reply = TypeVar("_Reply")


class BackgroundClient:
    """A ChatClient over `model` and the store that `reader` reads; it changes models, too.

    kept: what is made is kept when the run ends. Whatever waits for the model may raise
    ModelLoadError, there is none; or ServerDraining, the waiting was stopped. A conversation that
    another process is answering is waited for as long as at a server.
    """

    def __init__(self, model: BackgroundModel, reader: ConversationReader, *, kept: bool) -> None:
        self.model = model
        self.backoff = Backoff()
        self._reader = reader
        self._kept = kept

    @property
    def model_name(self) -> str:
        """The model that answers, or is about to."""
        return self.model.name

    @property
    def n_ctx(self) -> int:
        """Tokens that a conversation may have; 0 while there is no model."""
        service = self.model.opened
        return 0 if service is None else service.n_ctx

    @property
    def notices(self) -> tuple[str, ...]:
        """What to tell once, when the model is there."""
        service = self.model.opened
        return () if service is None else service.notices

    @property
    def is_lost(self) -> bool:
        """Never: the conversations are in this process."""
        return False

    def stop_waiting(self) -> None:
        """Whoever waits for the model gives up."""
        self.model.stop_waiting()

    async def change_model(self, name: str) -> None:
        """Have another model answer; conversations go on with it.

        Raises ModelLoadError or ConfigError: nothing has changed.
        """
        await self.model.change(name)

    async def latest_conversation(self) -> str | None:
        """The conversation used last."""
        return await self._reader.latest_conversation()

    async def resolve_conversation(self, id_or_prefix: str) -> str:
        """The full id. Raises ConversationNotFound: unknown or ambiguous."""
        return await self._reader.resolve_conversation(id_or_prefix)

    async def conversation(self, conversation: str) -> ConversationView:
        """What is known of it."""
        return await self._reader.conversation(conversation)

    async def conversations(
        self, limit: int = 20, after: str | None = None
    ) -> list[ConversationView]:
        """The last changed first; after: those that follow that one."""
        return await self._reader.conversations(limit, after)

    async def messages(self, conversation: str) -> list[MessageView]:
        """The path at the conversation's tip, oldest first."""
        return await self._reader.messages(conversation)

    async def tree(self, conversation: str, *, warmth: bool = False) -> list[TreeMessage]:
        """Every message that the conversation has passed; warmth: if there is a model."""
        reader = self.model.opened or self._reader
        return await reader.tree(conversation, warmth=warmth)

    async def search(self, query: str, limit: int = 20) -> list[SearchHit]:
        """Messages of all conversations that have these words, the best first."""
        return await self._reader.search(query, limit)

    async def export(self, conversation: str, kind: str) -> str:
        """The conversation as "json" or "markdown"."""
        return await self._reader.export(conversation, kind)

    async def create_conversation(self, system: str | None = None) -> str:
        """A new, empty conversation's id."""
        service = await self.model.service()
        return await service.create_conversation(system, kept=self._kept)

    async def update_conversation(
        self,
        conversation: str,
        *,
        title: str | None = None,
        system: str | None = None,
        tip: str | None = None,
    ) -> ConversationView:
        """Change what is given."""
        service = await self.model.service()
        return await self._when_idle(
            lambda: service.update_conversation(conversation, title=title, system=system, tip=tip)
        )

    async def delete_conversation(self, conversation: str) -> None:
        """With what only it had in the cache."""
        service = await self.model.service()
        await self._when_idle(lambda: service.delete_conversation(conversation))

    async def fork_conversation(
        self, conversation: str, *, at: str | None = None, title: str = ""
    ) -> ConversationView:
        """Another conversation that goes on from the tip, or from `at`."""
        service = await self.model.service()
        kept = self._kept
        return await self._when_idle(
            lambda: service.fork_conversation(conversation, at=at, title=title, kept=kept)
        )

    async def inspect(
        self,
        *,
        conversation: str | None = None,
        text: str = "",
        turn: int | None = None,
        texts: bool = False,
    ) -> CacheReport:
        """What the next turn would find in the cache. Waits without a word: the prompt asks."""
        service = await self.model.service(quietly=True)
        return await service.inspect(conversation=conversation, text=text, turn=turn, texts=texts)

    async def cache_tree(self, conversation: str | None = None) -> CacheTree:
        """The cache's tree."""
        return await (await self.model.service()).cache_tree(conversation)

    def send(
        self, conversation: str, text: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Add the user's message and answer it."""
        return self._answer(lambda service: service.send(conversation, text, options))

    def edit(
        self, conversation: str, turn: int, text: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Answer the conversation as if its user turn `turn` had been `text`."""
        return self._answer(lambda service: service.edit(conversation, turn, text, options))

    def regenerate(
        self, conversation: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Answer the last user's message again."""
        return self._answer(lambda service: service.regenerate(conversation, options))

    def sibling(self, response: str, options: ResponseOptions) -> AsyncGenerator[ResponseEvent]:
        """Another answer beside a response's."""
        return self._answer(lambda service: service.sibling(response, options))

    def extend(self, conversation: str, options: ResponseOptions) -> AsyncGenerator[ResponseEvent]:
        """Go on with the last answer, which was cut short."""
        return self._answer(lambda service: service.extend(conversation, options))

    async def undo(self, conversation: str) -> MessageView:
        """Remove the last turn; its user's message."""
        service = await self.model.service()
        return await self._when_idle(lambda: service.undo(conversation))

    async def open_conversation(self, conversation: str) -> None:
        """Somebody is about to go on with it: at once, or when the model is there."""
        self.model.opens = conversation
        service = self.model.opened
        if service is not None:
            with contextlib.suppress(RadixChatError):
                await service.open_conversation(conversation)

    async def close_conversation(self, conversation: str) -> None:
        """Nobody is about to go on with it: without a model nobody needs to hear it."""
        service = self.model.opened
        if service is not None:
            await service.close_conversation(conversation)

    async def cancel(self, response: str) -> None:
        """End a response."""
        await (await self.model.service()).cancel(response)

    async def stats(self) -> dict[str, int | float | str]:
        """Figures of the engine and its cache, by name."""
        return await (await self.model.service()).stats()

    async def _answer(
        self, ask: Callable[[ChatService], AsyncGenerator[ResponseEvent]]
    ) -> AsyncGenerator[ResponseEvent]:
        service = await self.model.service()
        busy = self._busy_wait()
        while True:
            async with contextlib.aclosing(ask(service)) as events:
                try:
                    created = await anext(events)
                except ConversationLocked as locked:
                    await self._pause(busy, locked)
                    continue
                yield created
                async for event in events:
                    yield event
                return

    async def _when_idle(self, ask: Callable[[], Awaitable[_Reply]]) -> _Reply:
        """What is answered, once nobody else changes the conversation; not waited for long."""
        busy = self._busy_wait()
        while True:
            try:
                return await ask()
            except ConversationLocked as locked:
                await self._pause(busy, locked)

    def _busy_wait(self) -> BusyWait:
        return BusyWait(self.backoff.busy_s, self.model.pause)

    async def _pause(self, busy: BusyWait, locked: ConversationLocked) -> None:
        """Raises `locked` where it is not asked for again; who stops it wants its reason."""
        try:
            await busy.after(locked)
        except ServerDraining:
            raise locked from None


@asynccontextmanager
async def open_background(
    settings: ChatSettings, thread: LoadingThread, news: News, *, waits: bool
) -> AsyncIterator[BackgroundClient]:
    """A client whose store is open, and whose model is to be started; both end with the block.

    thread: where it is loaded; whoever ends the process looks whether it works. waits: as of
    BackgroundModel. Raises StoreError.
    """
    # Here, because SQLite, and what there is around it, takes longer to import than the rest.
    from radixchat.server.conversation_reader import ConversationReader
    from radixchat.server.store_thread import open_store

    async with open_store(settings.database) as database:
        model = BackgroundModel(settings, database, thread, news, waits=waits)
        reader = ConversationReader(database.store, LOCAL_PRINCIPAL, database.call)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(model.close)
            yield BackgroundClient(model, reader, kept=settings.log)


class _Told:
    """News of somebody who waits: there is no line to be shown meanwhile."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.note = self.error = tell

    def during(self, text: str) -> AbstractContextManager[None]:
        """Show nothing."""
        return contextlib.nullcontext()


@asynccontextmanager
async def open_loaded(
    settings: ChatSettings, tell: Callable[[str], None]
) -> AsyncIterator[BackgroundClient]:
    """A client whose model answers. Raises ModelLoadError, ConfigError or StoreError."""
    thread = LoadingThread()
    try:
        async with open_background(settings, thread, _Told(tell), waits=True) as client:
            await client.model.start()
            yield client
    finally:
        thread.close()
