"""`ChatService`: one principal's conversations, turns, edits, regenerations. It knows no socket.

A view of a `ChatHost`, which owns what runs and what is stored; the same object serves a terminal
in this process and every socket of its principal. Every method is called on one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from radixchat.engine.common_prefix import common_prefix
from radixchat.engine.errors import ConversationLocked, ConversationNotFound
from radixchat.engine.hint import Observe, Purge, Signal, Supersede
from radixchat.server.acceptance import Acceptance, Terms
from radixchat.server.asks import AnotherAnswer, Ask, EditedTurn, EventKey, InputMessage, NewTurn
from radixchat.server.cache_view import CacheView
from radixchat.server.conversation import Conversation
from radixchat.server.protocol import (
    CacheReport,
    CacheTree,
    ConversationView,
    MessageView,
    ResponseEvent,
    ResponseOptions,
    SearchHit,
    TreeMessage,
)
from radixchat.server.reopening import reopen
from radixchat.server.response import NEVER, LiveResponse
from radixchat.server.rows import IN_PROGRESS, NO_METADATA, ForgottenPath
from radixchat.server.store_conversation import LOCKED_RETRY_MS
from radixchat.server.stored_response import StoredResponse
from radixchat.server.turn_place import load_path

if TYPE_CHECKING:
    from radixchat.server.host import ChatHost

Response = LiveResponse | StoredResponse


class ChatService:
    """Answers turns of one principal's stored conversations.

    Raises, all of it before anything is stored or computed: InvalidRequest (PromptTooLong with both
    numbers), ConversationNotFound, ConversationLocked, ResponseNotFound; also StoreError,
    EngineStopped and ServerDraining.
    """

    def __init__(self, host: ChatHost, principal: str, namespace: bytes) -> None:
        """namespace: the root under which the principal's KV is cached."""
        self.principal = principal
        self.model_name = host.model_name
        self.n_ctx = host.n_ctx
        self.notices = host.notices
        self.host = host
        self._store = host.store
        self.namespace = namespace
        self._continuing: dict[str, asyncio.Task[LiveResponse]] = {}
        self._cache = CacheView(host, namespace)
        self._acceptance = Acceptance(host, principal, namespace, self._cache)

    async def create_conversation(
        self, system: str | None = None, title: str = "", metadata: Mapping[str, str] = NO_METADATA
    ) -> str:
        """A new, empty conversation; the system message, if any, heads it."""
        return await self.host.database(
            self._store.create_conversation,
            principal=self.principal,
            system=system,
            title=title,
            metadata=metadata,
        )

    async def conversation(self, conversation: str) -> ConversationView:
        """What is known of it; what a killed process has left running in it has ended."""

        def load() -> ConversationView:
            self._store.settle(conversation)
            return self._store.conversation(conversation, principal=self.principal).view()

        return await self.host.database(load)

    async def conversations(
        self, limit: int = 20, after: str | None = None
    ) -> list[ConversationView]:
        """The last changed first; after: those that follow that one."""
        rows = await self.host.database(
            self._store.conversations, principal=self.principal, limit=limit, after=after
        )
        return [row.view() for row in rows]

    async def latest_conversation(self) -> str | None:
        """The conversation used last, in any process."""
        return await self.host.database(self._store.latest, principal=self.principal)

    async def resolve_conversation(self, id_or_prefix: str) -> str:
        """The full id. Raises ConversationNotFound, saying whether none or several match."""
        return await self.host.database(self._store.resolve, id_or_prefix, principal=self.principal)

    async def update_conversation(
        self,
        conversation: str,
        *,
        title: str | None = None,
        metadata: Mapping[str, str] | None = None,
        tip: str | None = None,
        expected_tip: str | None = None,
    ) -> ConversationView:
        """Change what is given. tip: the message, or response, to go on from: another branch.

        expected_tip: where the tip is another than this, ConversationLocked is raised.
        """
        if tip is not None:
            path = await self._path(conversation)
            expected = path.tip if expected_tip is None else expected_tip
            new = await self._message(tip)
            await self._move(path, expected, new)
        update = functools.partial(self._store.update_conversation, principal=self.principal)
        row = await self.host.database(update, conversation, title=title, metadata=metadata)
        return row.view()

    async def delete_conversation(self, conversation: str) -> None:
        """Its rows and what only it had in the cache. A turn that runs in it is cancelled first."""
        running = (await self.conversation(conversation)).running
        if running is not None and (live := self.host.live(running)) is not None:
            await live.stop()
        paths = await self.host.database(
            self._store.delete_conversation, conversation, principal=self.principal
        )
        self._cache.drop_draft(conversation)
        await self._purge(conversation, paths)

    async def fork_conversation(
        self, conversation: str, *, at: str | None = None, title: str = ""
    ) -> ConversationView:
        """Another conversation that goes on from the tip, or from a message or response `at`.

        Nothing is copied.
        """
        row = await self.conversation(conversation)
        tip = row.tip if at is None else await self._message(at)
        fork = await self.host.database(
            self._store.create_conversation, principal=self.principal, title=title, tip=tip
        )
        return await self.conversation(fork)

    async def messages(self, conversation: str) -> list[MessageView]:
        """The messages on the path to the tip, oldest first."""
        path = await self._path(conversation)
        return [MessageView(m.id, m.role, m.text, m.status) for m in path.messages]

    async def tree(self, conversation: str) -> list[TreeMessage]:
        """Every message that the conversation has passed, parents first."""
        return await self.host.database(self._store.tree, conversation, principal=self.principal)

    async def search(self, query: str, limit: int = 20) -> list[SearchHit]:
        """Messages of listed conversations that have these words, the best first."""
        return await self.host.database(
            self._store.search, query, principal=self.principal, limit=limit
        )

    async def export(self, conversation: str, kind: str) -> str:
        """The conversation as "json", all of its branches, or as "markdown", its path."""
        return await self.host.database(
            self._store.export, conversation, principal=self.principal, kind=kind
        )

    async def undo(self, conversation: str) -> MessageView:
        """Take the last turn off the conversation; returns the user's message of it.

        Nothing is erased: the messages stay in the tree. Raises InvalidRequest without a turn.
        """
        path = await self._path(conversation)
        await self._move(path, path.tip, path.before_last_turn().tip)
        undone = path.last_user
        assert undone is not None
        return MessageView(undone.id, undone.role, undone.text, undone.status)

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

    async def close_conversation(self, conversation: str) -> None:
        """Nobody is about to go on with it: its cached tokens may make room for others' first."""
        self.observe(conversation, Signal.CLOSED)

    def observe(self, conversation: str, signal: Signal) -> None:
        """Tell the cache what is heard of whoever has the conversation."""
        self.host.engine.hint(Observe(conversation, signal))

    async def inspect(self, *, conversation: str | None = None, text: str = "") -> CacheReport:
        """What the next turn, `text`, would find in the cache; changes nothing."""
        path = Conversation("", ())
        if conversation is not None:
            path = await self._path(conversation)
        return await self._cache.inspect(path, text)

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
        return {"engine": str(self.host.plan), **snapshot.pop("counters"), **snapshot}

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

    async def _purge(self, conversation: str, paths: Sequence[ForgottenPath]) -> None:
        for path in paths:
            purge = Purge(path.token_ids, conversation, self.namespace, path.start)
            await self.host.engine.purge(purge)

    async def _message(self, message_or_response: str) -> str:
        """The message of that id, or the one that a response of that id has ended with."""
        if not message_or_response.startswith("resp_"):
            return message_or_response
        row = await self.host.database(
            self._store.response, message_or_response, principal=self.principal
        )
        return row.answer or row.question
