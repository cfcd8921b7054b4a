"""What one client's events set off: which of them wait for which, and what is answered.

    response.create, .regenerate    in lanes: one after the other in each, lanes beside each other
    prefill.draft                   beside everything: a newer one ends the older
    ping, client.hello, .cancel     at once
    session.*, cache.*, .resume …   in one queue: replies come in the order of the events

Owns these tasks, and whether the client knows our events. A command that fails is answered with an
error and nothing else. Knows no socket: what is to be sent goes to the outbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from radixchat.server.api_error import ApiError, api_error_of, invalid_value, unsupported
from radixchat.server.edge import Edge
from radixchat.server.lane import LaneRefused, Lanes
from radixchat.server.outbox import Closing, Outbox
from radixchat.server.service import ChatService
from radixchat.server.socket_cache import SocketCache
from radixchat.server.socket_hello import PROTOCOL, server_hello
from radixchat.server.socket_responses import SocketResponses
from radixchat.server.socket_sessions import SessionEvent, answer_session
from radixchat.server.wire_client_events import (
    CacheInspect,
    CacheTreeGet,
    ClientEvent,
    ClientHello,
    LaneMessage,
    Ping,
    PrefillDraft,
    PrefillDrop,
    ResponseCancel,
    ResponseCreate,
    ResponseExtend,
    ResponseRegenerate,
    ResponseResume,
    ResponseSteer,
    ServerStats,
    SessionDelete,
    SessionSubscribe,
    SessionUndo,
    SessionUnsubscribe,
    SessionUpdate,
)
from radixchat.server.wire_server_events import (
    Pong,
    Reply,
    SessionDeleted,
    SessionReply,
    SessionSubscribed,
    SessionUnsubscribed,
    SessionUpdated,
)
from radixchat.server.wire_value import wire_dict

# Commands that may wait for those before them; then the reader waits, and so does the client.
MAX_COMMANDS = 32
# Drafts in the making at once; more are only those of a client that does not wait for answers.
MAX_DRAFTS = 8

Command = Callable[[], Awaitable[Reply | None]]


class SocketCommands:
    """One connection's; used on one event loop."""

    def __init__(
        self,
        service: ChatService,
        edge: Edge,
        outbox: Outbox,
        *,
        extensions: bool,
        is_operator: bool,
    ) -> None:
        """extensions: the client said hello in the handshake. is_operator: of its key."""
        settings = edge.settings
        self.extensions = extensions
        self._service = service
        self._edge = edge
        self._outbox = outbox
        self._lanes = Lanes(settings.limits.max_lanes, settings.limits.max_queued)
        self._responses = SocketResponses(service, outbox, edge)
        self._cache = SocketCache(service, is_operator=is_operator)
        self._waiting: asyncio.Queue[tuple[ClientEvent, Command]] = asyncio.Queue(MAX_COMMANDS)
        self._drafts: set[asyncio.Task[None]] = set()

    @property
    def followed(self) -> tuple[str, ...]:
        """The responses that the client is being told of."""
        return self._responses.followed

    async def run(self) -> Closing:
        """Serve the commands that wait; ends by being cancelled."""
        while True:
            event, command = await self._waiting.get()
            await self._answer(event, command)

    async def take(self, event: ClientEvent) -> None:
        """Have an event served. Raises ApiError where it is not."""
        match event:
            case ResponseCreate():
                extensions = self.extensions  # as of now
                self._put(event, lambda: self._responses.create(event, extensions))
            case ClientHello():
                await self._hello(event)
            case ResponseSteer():
                why = "a running response takes no more input; cancel it, or ask when it has ended"
                raise unsupported("type", f"response.steer is not supported: {why}")
            case _ if not self.extensions:
                message = f"{event.type} is an extension: send client.hello first"
                raise ApiError(400, "extension_required", message, param="type")
            case ResponseRegenerate():
                self._put(event, lambda: self._responses.regenerate(event))
            case ResponseExtend():
                self._put(event, lambda: self._responses.extend(event))
            case ResponseCancel():
                await self._answer(event, lambda: self._responses.cancel(event.response_id))
            case Ping():
                await self._reply(Pong(in_reply_to=event.event_id, t=event.t))
            case PrefillDraft():
                self._draft(event)
            case _:
                await self._waiting.put((event, self._command(event)))

    async def greet(self, in_reply_to: str | None = None) -> None:
        """Say hello to a client that knows our events."""
        limits, boot_id = self._edge.settings.limits, self._edge.host.boot_id
        await self._reply(server_hello(self._service, limits, boot_id, in_reply_to))

    async def refuse(self, error: ApiError, event: ClientEvent | None = None) -> None:
        """Tell the client that an event was not served."""
        self._edge.metrics.refused(error.code)
        lane = event.stream_id if isinstance(event, LaneMessage | ResponseCreate) else None
        event_id = None if event is None else event.event_id
        await self._outbox.put(error.event(event_id=event_id, stream_id=lane))

    async def stop(self) -> None:
        """End what serves this client; what it asked for goes on."""
        for draft in self._drafts:
            draft.cancel()
        if self._drafts:
            await asyncio.wait(self._drafts)
        await self._lanes.close()

    async def leave(self) -> None:
        """Give up what the client cannot come back for."""
        await self._responses.close()
        await self._cache.close()

    def _command(self, event: ClientEvent) -> Command:
        """What is done for an event, in its turn."""
        match event:
            case ResponseResume():
                return lambda: self._responses.resume(event)
            case SessionSubscribe():
                return lambda: self._subscribe(event)
            case SessionUnsubscribe():
                return lambda: self._unsubscribe(event)
            case PrefillDrop() | CacheInspect() | CacheTreeGet() | ServerStats():
                return lambda: self._cache.answer(event)
            case SessionUpdate() | SessionUndo() | SessionDelete():
                return lambda: self._change(event)
            case _ if isinstance(event, SessionEvent):
                return lambda: answer_session(self._service, event)
            case _:
                raise invalid_value("type", f"{event.type} has no place here")

    def _put(
        self, event: ResponseCreate | ResponseRegenerate | ResponseExtend, command: Command
    ) -> None:
        """Serve it in its lane. Raises ApiError."""

        async def job() -> None:
            await self._answer(event, command)

        try:
            self._lanes.put(event.stream_id, job)
        except LaneRefused as refused:
            if refused.what == "lanes":
                code, message = (
                    "websocket_stream_limit_reached",
                    f"{refused.limit} lanes are in use, which is all that a connection may have",
                )
            else:
                code, message = (
                    "rate_limit_exceeded",
                    f"{refused.limit} turns wait in this lane, which is all that may",
                )
            raise ApiError(
                429,
                code,
                message,
                param="stream_id",
                details={"limit": refused.limit, "retry_after_ms": 1000},
            ) from refused

    def _draft(self, event: PrefillDraft) -> None:
        if len(self._drafts) >= MAX_DRAFTS:
            message = f"{MAX_DRAFTS} drafts are being computed, which is all that may be"
            raise ApiError(429, "rate_limit_exceeded", message, details={"retry_after_ms": 1000})
        draft = asyncio.create_task(self._answer(event, lambda: self._cache.answer(event)))
        self._drafts.add(draft)
        draft.add_done_callback(self._drafts.discard)

    async def _answer(self, event: ClientEvent, command: Command) -> None:
        try:
            reply = await command()
        except Exception as failure:  # noqa: BLE001 - a bug ends this command, and no other
            await self.refuse(api_error_of(failure), event)
        else:
            if reply is not None:
                await self._reply(reply)

    async def _reply(self, reply: Reply) -> None:
        await self._outbox.put(wire_dict(reply))

    async def _hello(self, event: ClientHello) -> None:
        if event.protocol != PROTOCOL:
            message = f"protocol is {event.protocol}; this server speaks {PROTOCOL}"
            raise invalid_value("protocol", message)
        self.extensions = True
        await self.greet(event.event_id)

    async def _subscribe(self, event: SessionSubscribe) -> None:
        running = await self._responses.subscribe(event.session_id)
        await self._service.open_conversation(event.session_id)
        await self._reply(
            SessionSubscribed(
                in_reply_to=event.event_id, session_id=event.session_id, running=running
            )
        )
        if running is not None:
            after = -1 if event.starting_after is None else event.starting_after
            await self._responses.join(running, after)

    async def _unsubscribe(self, event: SessionUnsubscribe) -> Reply:
        self._responses.unsubscribe(event.session_id)
        return SessionUnsubscribed(in_reply_to=event.event_id, session_id=event.session_id)

    async def _change(self, event: SessionUpdate | SessionUndo | SessionDelete) -> Reply:
        """Those who watch the conversation hear of it, too."""
        reply = await answer_session(self._service, event)
        match reply:
            case SessionDeleted(session_id=conversation):
                told: Reply = SessionDeleted(session_id=conversation)
            case SessionReply():
                told = SessionUpdated(session=reply.session)
            case _:
                raise AssertionError(f"{reply} answers no change")
        self._edge.watch.tell(event.session_id, wire_dict(told), but=self._responses)
        return reply
