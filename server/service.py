"""`ChatService`: one principal's conversations, turns, edits, regenerations. It knows no socket.

A view of a `ChatHost`, which owns what runs and what is stored; the same object serves a terminal
in this process and every socket of its principal. Every method is called on one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from radixchat.engine.errors import ConversationLocked, ConversationNotFound
from radixchat.engine.hint import Observe, Signal
from radixchat.server.acceptance import Acceptance, Terms
from radixchat.server.asks import (
    AnotherAnswer,
    Ask,
    EditedTurn,
    EventKey,
    InputMessage,
    LongerAnswer,
    NewTurn,
)
from radixchat.server.conversation import Conversation
from radixchat.server.conversation_service import ConversationService
from radixchat.server.protocol import (
    CacheReport,
    CacheTree,
    ResponseEvent,
    ResponseOptions,
)
from radixchat.server.reopening import reopen
from radixchat.server.response import NEVER, LiveResponse
from radixchat.server.rows import IN_PROGRESS, NO_METADATA
from radixchat.server.store_conversation import LOCKED_RETRY_MS
from radixchat.server.stored_response import StoredResponse
from radixchat.server.tier_figures import read_tiers

if TYPE_CHECKING:
    from radixchat.server.host import ChatHost

Response = LiveResponse | StoredResponse


class ChatService(ConversationService):
    """Answers turns of one principal's stored conversations.

    Raises, all of it before anything is stored or computed: InvalidRequest (PromptTooLong with both
    numbers), ConversationNotFound, ConversationLocked, ResponseNotFound; also StoreError,
    EngineStopped and ServerDraining.
    """

    def __init__(self, host: ChatHost, principal: str, namespace: bytes) -> None:
        """namespace: the root under which the principal's KV is cached."""
        super().__init__(host, principal, namespace)
        self.model_name = host.model_name
        self.n_ctx = host.n_ctx
        self.notices = host.notices
        self._continuing: dict[str, asyncio.Task[LiveResponse]] = {}
        self._acceptance = Acceptance(host, principal, namespace, self._cache)

    async def begin(
        self,
        ask: Ask,
        options: ResponseOptions,
        *,
        event: EventKey | None = None,
        on_busy: str = "reject",
        metadata: Mapping[str, str] = NO_METADATA,
        store: bool = True,
        generate: bool = True,
        report: bool = False,
        detach_s: float | None = None,
        compared: str | None = None,
    ) -> Response:
        """Accept a turn: it is stored when this returns, and about to be computed.

        event: asked again it is the same response, live or stored. on_busy: what to do where the
        conversation is being answered: "reject", "queue", "interrupt". store: False: `forget` it
        when its client has gone. generate: False only computes the prompt; the response completes
        without output. report: have PrefillProgress and CacheReport too. detach_s: how long it goes
        on without a reader; None: the host's default, response.NEVER. compared: the response that
        a miss is explained by, not the conversation's last.
        """
        terms = Terms(event, on_busy, metadata, store, generate, report, detach_s, compared)
        begun = await self._acceptance.begin(ask, options, terms)
        return begun if isinstance(begun, LiveResponse) else await self.response(begun.id)

    async def response(self, response: str) -> Response:
        """It as it runs, or as it is stored. Raises ResponseNotFound."""

        def load() -> tuple[StoredResponse | None, str]:
            row = self._store.response(response, principal=self.principal)
            if row.status == IN_PROGRESS:
                self._store.settle(row.conversation)
                row = self._store.response(response, principal=self.principal)
            if self.host.live(row.id) is not None or row.status == IN_PROGRESS:
                return None, row.conversation
            text = ""
            if row.answer is not None:
                text = self._store.path(row.answer, principal=self.principal)[-1].text
            place = self._store.conversation(row.conversation, principal=self.principal)
            return StoredResponse(row, text, listed=place.listed), row.conversation

        stored, conversation = await self.host.database(load)
        live = self.host.live(response)
        if live is not None:
            return live
        continuing = self._continuing.get(response)
        if stored is None and continuing is not None:  # it is about to run here
            await asyncio.wait({continuing})
            return await self.response(response)
        if stored is None:
            raise ConversationLocked(
                f"response {response} of {conversation} is being computed by another process",
                LOCKED_RETRY_MS,
            )
        return stored

    async def continue_response(
        self, response: str, *, detach_s: float | None = None
    ) -> LiveResponse:
        """Go on with a response that was cut short when its process ended; the same answer.

        Raises InvalidRequest where it ended otherwise, or another model made it; ConversationLocked
        where its conversation has gone on.
        """
        self.host.require_accepting()
        live = self.host.running.get(response)
        if live is not None:
            await self.response(response)  # whose it is
            return live
        continuing = self._continuing.get(response)
        if continuing is None:
            # A task of its own: one who leaves meanwhile must not leave it open, with nobody's work
            # behind it; and two who come at the same time go on with one answer.
            continuing = asyncio.create_task(
                reopen(self.host, self.principal, self._acceptance, response, detach_s)
            )
            self._continuing[response] = continuing
            self.host.beginning.add(continuing)
            continuing.add_done_callback(functools.partial(self._continued, response))
        return await asyncio.shield(continuing)

    async def cancel(self, response: str) -> None:
        """End a running response; its events then end with status "incomplete"."""
        (await self.response(response)).cancel()

    async def delete_response(self, response: str) -> None:
        """Forget it and what only it had in the cache; one that runs is cancelled first.

        What the path of a listed conversation shows stays.
        """
        found = await self.response(response)
        if isinstance(found, LiveResponse):
            await found.stop()
        paths = await self.host.database(
            self._store.delete_response, response, principal=self.principal
        )
        self.host.drop(response)
        await self._purge(found.created.conversation, paths)

    async def forget(self, conversation: str) -> None:
        """Delete a conversation that was not to be stored; another one stays."""
        with contextlib.suppress(ConversationNotFound):
            row = await self.host.database(
                self._store.conversation, conversation, principal=self.principal
            )
            if not row.kept:
                await self.delete_conversation(conversation)

    def send(
        self, conversation: str, text: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Append a user message and answer it.

        Yields ResponseCreated once the message is stored, deltas, and one ResponseDone. Raises
        before anything is stored or computed. Leaving the iteration cancels the response.
        """
        return self._respond(NewTurn((InputMessage("user", text),), conversation), options)

    def edit(
        self, conversation: str, turn: int, text: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Replace the user message of a turn, counted from 1, and answer it; otherwise as send.

        The old branch stays in the tree.
        """
        return self._respond(EditedTurn(conversation, turn, text), options)

    def regenerate(
        self, conversation: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Answer the last user message again; otherwise as send. The old answer stays."""
        return self._respond(AnotherAnswer(conversation), options)

    def sibling(self, response: str, options: ResponseOptions) -> AsyncGenerator[ResponseEvent]:
        """Another answer beside a response's, while that may still run; otherwise as send.

        No conversation moves to it.
        """
        return self._respond(AnotherAnswer(response=response), options)

    def extend(self, conversation: str, options: ResponseOptions) -> AsyncGenerator[ResponseEvent]:
        """Go on with the last answer, which was cut short; otherwise as send.

        The first delta is what there was; max_output_tokens counts what is new. The short answer
        stays in the tree. Raises InvalidRequest where there is no such answer.
        """
        return self._respond(LongerAnswer(conversation), options)

    async def close_conversation(self, conversation: str) -> None:
        """Nobody is about to go on with it: its cached tokens may make room for others' first."""
        self.observe(conversation, Signal.CLOSED)

    def observe(self, conversation: str, signal: Signal) -> None:
        """Tell the cache what is heard of whoever has the conversation."""
        self.host.engine.hint(Observe(conversation, signal))

    async def inspect(
        self,
        *,
        conversation: str | None = None,
        text: str = "",
        turn: int | None = None,
        texts: bool = False,
    ) -> CacheReport:
        """What the next turn, `text`, would find in the cache; changes nothing.

        turn: as if the text (without one, the turn's own) took the place of that user turn, from 1;
        then no segment tells its message, unless there are texts. texts: with each segment's text.
        """
        path = Conversation("", ())
        if conversation is not None:
            path = await self._path(conversation)
        return await self._cache.inspect(path, text, turn, texts=texts)

    async def cache_tree(self, conversation: str | None = None) -> CacheTree:
        """This principal's part of the radix tree; the conversation's path is marked."""
        path = None if conversation is None else await self._path(conversation)
        return await self._cache.tree(path)

    async def draft(self, conversation: str, revision: int, text: str) -> int:
        """Compute what is typed so far, with nothing else to do; how many tokens it has by then.

        A newer revision ends an older one, and what that had and this has not is forgotten. An
        older one does nothing: 0.
        """
        path = await self._path(conversation)
        return await self._cache.draft(path, revision, text)

    async def drop_draft(self, conversation: str) -> None:
        """Forget what was computed of a message that is not going to be sent."""
        self._cache.drop_draft(conversation)  # also of a conversation that was deleted meanwhile
        await self.conversation(conversation)

    async def stats(self, *, everybody: bool = True) -> dict[str, int | float | str]:
        """How the engine was set up and, of all its principals, its counters since start."""
        snapshot = asdict(self.host.engine.snapshot) if everybody else {"counters": {}}
        stats = {"engine": self.host.engine_in_words, **snapshot.pop("counters"), **snapshot}
        tiers = await read_tiers(self.host) if everybody else None
        return stats if tiers is None else {**stats, **tiers.stats()}

    async def _respond(self, ask: Ask, options: ResponseOptions) -> AsyncGenerator[ResponseEvent]:
        """Accept a turn and hand on its events; whoever leaves cancels it, at once."""
        response = await self.begin(ask, options, detach_s=NEVER)
        assert isinstance(response, LiveResponse), "without an event nothing is begun twice"
        try:
            async with contextlib.aclosing(response.events()) as events:
                async for event in events:
                    yield event
        finally:
            await response.stop()

    def _continued(self, response: str, continuing: asyncio.Task[LiveResponse]) -> None:
        del self._continuing[response]
        self.host.beginning.discard(continuing)
        if not continuing.cancelled():
            continuing.exception()  # whoever asked is told; it may be that nobody waits any more
