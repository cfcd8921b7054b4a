"""The responses that one connection asks for, cancels, resumes or watches.

Owns which responses the connection follows, and what of it is gone when it goes. A response that
was asked for is begun whatever becomes of the connection meanwhile: asked for again with the same
`event_id`, it is found. Knows no socket: what is to be sent goes to the outbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

from radixchat.engine.errors import RadixChatError, ResponseNotFound
from radixchat.engine.hint import Signal
from radixchat.server.api_error import ApiError, api_error_of, previous_response_not_found
from radixchat.server.asks import AnotherAnswer, EventKey, NewTurn
from radixchat.server.edge import Edge
from radixchat.server.encode import Encoder
from radixchat.server.outbox import Outbox, WireEvent
from radixchat.server.protocol import ResponseCreated, ResponseSnapshot
from radixchat.server.response import LiveResponse
from radixchat.server.response_ask import (
    ResponseAsk,
    extend_to_ask,
    regenerate_to_ask,
    response_create_to_ask,
)
from radixchat.server.response_feed import ResponseFeed
from radixchat.server.service import ChatService
from radixchat.server.stored_response import StoredResponse
from radixchat.server.wire_client_events import (
    ResponseCreate,
    ResponseExtend,
    ResponseRegenerate,
    ResponseResume,
)
from radixchat.server.wire_response_events import ResponseResumedEvent
from radixchat.server.wire_value import wire_dict

# Responses that one connection may follow at once, however it came to them.
MAX_FOLLOWED = 64
# Conversations that are not to be stored and can still be gone on from; then the oldest goes.
MAX_UNKEPT = 64

# On whose behalf a response begins: its connection follows it anyway.
_asking: contextvars.ContextVar[SocketResponses | None] = contextvars.ContextVar(
    "_asking", default=None
)


@dataclass(frozen=True, slots=True)
class Reader:
    """How a client reads a response: its lane, the event that asked, what it knows of."""

    lane: str | None = None
    event_id: str | None = None
    extensions: bool = True
    progress: bool = True
    token_ids: bool = False


class SocketResponses:
    """One connection's; used on one event loop."""

    def __init__(self, service: ChatService, outbox: Outbox, edge: Edge) -> None:
        self._service = service
        self._outbox = outbox
        self._watch = edge.watch
        self._rates = edge.rates
        self._metrics = edge.metrics
        self._feeds: dict[str, ResponseFeed] = {}
        self._beginning: set[asyncio.Task[LiveResponse | StoredResponse]] = set()
        self._telling: set[asyncio.Task[None]] = set()
        self._watched: set[str] = set()
        self._connected: set[str] = set()  # listed conversations that the client is in
        self._unkept: dict[str, None] = {}  # those that go when it does

    @property
    def followed(self) -> tuple[str, ...]:
        """The responses that the client is being told of."""
        return tuple(id_ for id_, feed in self._feeds.items() if not feed.told.is_set())

    async def create(self, event: ResponseCreate, extensions: bool) -> None:
        """Answer, and return when the answer's end was sent."""
        asked = response_create_to_ask(event, model=self._service.model_name)
        await self._answer(asked, event, extensions)

    async def regenerate(self, event: ResponseRegenerate) -> None:
        """Answer once more, n times, and return when the last one's end was sent."""
        await self._answer(regenerate_to_ask(event), event, extensions=True)

    async def extend(self, event: ResponseExtend) -> None:
        """Go on with an answer that was cut short, and return when the end was sent."""
        await self._answer(extend_to_ask(event), event, extensions=True)

    async def cancel(self, response: str) -> None:
        """End it; its terminal event is the answer. Raises ResponseNotFound."""
        await self._service.cancel(response)

    async def resume(self, event: ResponseResume) -> None:
        """Follow a response from where the client was. Raises ResponseNotFound."""
        self._check_room()
        try:
            response = await self._service.response(event.response_id)
        except ResponseNotFound:
            self._metrics.resumed("not_found")
            raise
        result = "stored" if isinstance(response, StoredResponse) else None
        goes_on = event.x is not None and event.x.continue_
        if goes_on and isinstance(response, StoredResponse) and response.is_cut_short:
            response = await self._service.continue_response(event.response_id)
            result = "continued"
        token_ids = bool(event.x and event.x.return_token_ids)
        reader = Reader(event.stream_id, event.event_id, token_ids=token_ids)
        mode = self._resume(response, reader, event.starting_after)
        self._metrics.resumed(result or mode)

    async def subscribe(self, conversation: str) -> str | None:
        """Follow the responses that begin in a conversation, whoever asks for them.

        Returns the id of the one that runs. Raises ConversationNotFound.
        """
        running = (await self._service.conversation(conversation)).running
        if conversation not in self._watched:
            self._watched.add(conversation)
            self._watch.watch(conversation, self)
        return running

    async def join(self, response: str, after: int = -1) -> None:
        """Follow a response that somebody asked for. Raises ResponseNotFound."""
        if response not in self.followed:
            self._check_room()
            found = await self._service.response(response)
            if response not in self.followed:  # what the client itself has asked for meanwhile
                self._follow(found, Reader(), after)

    def unsubscribe(self, conversation: str) -> None:
        """No longer, but for what is followed already. A second time does nothing."""
        if conversation in self._watched:
            self._watched.remove(conversation)
            self._watch.leave(conversation, self)

    def began(self, created: ResponseCreated) -> None:
        """A response begins in a conversation that is watched (the ConversationWatch calls it)."""
        if _asking.get() is not self:
            self._spawn(self._join_late(created.response))

    def changed(self, event: WireEvent) -> None:
        """A conversation that is watched is another (the ConversationWatch calls it)."""
        self._spawn(self._outbox.put(event))

    async def close(self) -> None:
        """Leave everything; what is not to be kept goes. The outbox has left the responses."""
        for conversation in list(self._watched):
            self.unsubscribe(conversation)
        for task in self._telling:
            task.cancel()
        beginning = set(self._beginning)
        if beginning or self._telling:
            await asyncio.wait({*beginning, *self._telling})
        for begun in beginning:
            if begun.exception() is None:  # nobody reads it: its grace begins
                begun.result().subscribe().close()
        for conversation in self._connected:
            self._service.observe(conversation, Signal.DISCONNECTED)
        for conversation in list(self._unkept):
            await self._forget(conversation)

    async def _answer(
        self,
        asked: ResponseAsk,
        event: ResponseCreate | ResponseRegenerate | ResponseExtend,
        extensions: bool,
    ) -> None:
        """Begin it and its siblings, follow them, and return when all was sent.

        A sibling that is refused is told of at once, and the others go on.
        """
        _asking.set(self)
        reader = Reader(
            lane=event.stream_id,
            event_id=event.event_id,
            extensions=extensions,
            progress=asked.return_progress,
            token_ids=asked.return_token_ids,
        )
        if extensions:
            asked = replace(asked, arguments={**asked.arguments, "report": True})
        first = await self._begin(asked)
        told = [self._follow(first, reader)]
        try:
            for index in range(1, asked.n):
                told.append(
                    self._follow(await self._begin(sibling(asked, first.id, index)), reader)
                )
        except (ApiError, RadixChatError) as refused:
            error = api_error_of(refused)
            self._metrics.refused(error.code)
            await self._outbox.put(error.event(event_id=event.event_id, stream_id=event.stream_id))
        for event_of_end in told:
            await event_of_end.wait()

    async def _begin(self, asked: ResponseAsk) -> LiveResponse | StoredResponse:
        """Raises what `ChatService.begin` does, and RateLimited."""
        self._check_room()
        self._rates.begin(self._service.principal)
        begin = self._service.begin(asked.ask, asked.options, **asked.arguments)
        keep = asked.arguments.get("store", True)
        beginning = asyncio.create_task(self._begun(begin, keep))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)
        try:
            return await asyncio.shield(beginning)
        except ResponseNotFound as error:
            if not isinstance(asked.ask, NewTurn):
                raise
            raise previous_response_not_found(error) from error

    async def _begun(
        self, begin: Coroutine[Any, Any, LiveResponse | StoredResponse], keep: bool
    ) -> LiveResponse | StoredResponse:
        response = await begin
        conversation = response.created.conversation
        if not keep:
            self._unkept.pop(conversation, None)
            self._unkept[conversation] = None
            if len(self._unkept) > MAX_UNKEPT:
                self._spawn(self._make_room())
        if response.created.listed and conversation not in self._connected:
            self._connected.add(conversation)
            self._service.observe(conversation, Signal.CONNECTED)
        return response

    async def _make_room(self) -> None:
        """Forget the conversation that was not to be stored and was used least lately."""
        for conversation in list(self._unkept):
            with contextlib.suppress(RadixChatError):
                if (await self._service.conversation(conversation)).running is None:
                    await self._forget(conversation)
                    return

    async def _forget(self, conversation: str) -> None:
        self._unkept.pop(conversation, None)
        with contextlib.suppress(RadixChatError):  # a server that leaves sweeps it later
            await self._service.forget(conversation)

    def _follow(
        self, response: LiveResponse | StoredResponse, reader: Reader, after: int = -1
    ) -> asyncio.Event:
        """Tell the client of it from number `after` on. Returns what is set at its end."""
        feed = ResponseFeed(
            response.subscribe(self._outbox.wake, after),
            self._encoder(response, reader, after),
            told=self._taken_over(response.id),
        )
        self._attach(response.id, feed)
        return feed.told

    def _resume(self, response: LiveResponse | StoredResponse, reader: Reader, after: int) -> str:
        """The same for a client that comes back. Returns how: "replay" or "snapshot"."""
        subscription = response.subscribe(self._outbox.wake, after)
        missed = subscription.take()
        snapshot = next((e for e in missed if isinstance(e, ResponseSnapshot)), None)
        resumed = ResponseResumedEvent(
            response_id=response.id,
            mode="replay" if snapshot is None else "snapshot",
            from_=(after if snapshot is None else snapshot.sequence) + 1,
            stream_id=reader.lane,
            in_reply_to=reader.event_id,
        )
        encoder = self._encoder(response, reader, after)
        preface = [wire_dict(resumed)]
        for event in missed:
            preface.extend(encoder.events(event))
        told = self._taken_over(response.id)
        self._attach(response.id, ResponseFeed(subscription, encoder, preface=preface, told=told))
        return resumed.mode

    def _encoder(
        self, response: LiveResponse | StoredResponse, reader: Reader, after: int
    ) -> Encoder:
        encoder = Encoder(
            reader.lane,
            reader.extensions,
            self._service.model_name,
            after=after,
            in_reply_to=reader.event_id,
            progress=reader.progress,
            token_ids=reader.token_ids,
        )
        if after >= 1:  # it is not in the log's rest, and the end is told of with it
            encoder.events(response.created)
        return encoder

    def _taken_over(self, response: str) -> asyncio.Event | None:
        """Leave the feed that there is of a response: a client is told everything once."""
        feed = self._feeds.pop(response, None)
        if feed is None or feed.told.is_set():
            return None
        told = feed.hand_over()
        self._outbox.detach(feed)
        return told

    def _attach(self, response: str, feed: ResponseFeed) -> None:
        self._feeds = {id_: f for id_, f in self._feeds.items() if not f.told.is_set()}
        self._feeds[response] = feed
        self._outbox.attach(feed)

    def _check_room(self) -> None:
        """Raises ApiError where the connection follows as much as it may."""
        if self._outbox.num_sources >= MAX_FOLLOWED:
            raise ApiError(
                429,
                "websocket_stream_limit_reached",
                f"this connection follows {MAX_FOLLOWED} responses, which is all it may",
                details={"limit": MAX_FOLLOWED, "retry_after_ms": 1000},
            )

    def _spawn(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _join_late(self, response: str) -> None:
        with contextlib.suppress(ApiError, RadixChatError):  # the watcher did not ask for it
            await self.join(response)


def sibling(asked: ResponseAsk, first: str, index: int) -> ResponseAsk:
    """The ask of an answer beside `first`: its own event id, and a seed of its own."""
    arguments = dict(asked.arguments)
    event = arguments.get("event")
    if event is not None:
        arguments["event"] = EventKey(f"{event.event_id}#{index}")
    seed = asked.options.seed
    return replace(
        asked,
        ask=AnotherAnswer(response=first),
        options=asked.options if seed is None else replace(asked.options, seed=seed + index),
        arguments=arguments,
    )
