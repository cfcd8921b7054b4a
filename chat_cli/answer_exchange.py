"""`AnswerExchange`: one answer from its request to its end, over as many connections as it takes.

    not accepted yet    the request is sent again under the same event id: it is one response
    accepted            response.resume goes on after the last number; from the beginning where the
                        server has restarted, whose numbers are not the old ones'
    suspended           the server is about to end, and has ended the answer with itself: the next
                        one goes on with it
    to be cancelled     is said on every connection until the end has come; for a lost server it is
                        waited a moment only, and then the answer ends here with what it has

Owns what of the server's refusals is final. Knows no socket: the link has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

from radixchat.chat_cli.connection_loss import ConnectionLost
from radixchat.chat_cli.inbox import Inbox
from radixchat.chat_cli.remote_answer import SERVER_SHUTDOWN, Gap, RemoteAnswer
from radixchat.chat_cli.server_connection import ServerConnection
from radixchat.chat_cli.server_link import ServerLink, WaitingStopped
from radixchat.server.event_reader import ProtocolError, error_of
from radixchat.server.protocol import (
    CacheReport,
    ConversationLocked,
    InvalidRequest,
    PrefillProgress,
    RadixChatError,
    ResponseDone,
    ResponseEvent,
    ServerDraining,
    describe_error,
)

LEAVE_SECONDS = 5.0
"""How long whoever leaves an answer waits for its end, which a step of the engine comes before."""
CANCEL_SECONDS = 1.0
"""How long an answer that is to end waits for a server that is lost."""
GOODBYE_SECONDS = 5.0
"""How long a server that has ended an answer with itself has to close the connection."""
# A server that has lost its client may still be busy with what was asked, for a moment.
MAX_REFUSALS = 20
_PAUSE_SECONDS = 0.1
MAX_GAPS = 3


class AnswerExchange:
    """One answer; `next` until it has `ended`, then or before that `leave`."""

    def __init__(
        self, link: ServerLink, request: dict[str, Any], lane: str, *, states: bool
    ) -> None:
        """request: the event that asks. states: hand on PrefillProgress and CacheReport too."""
        extras = request.get("x") or {}
        self.answer = RemoteAnswer(extras.get("stop") or ())
        self._link = link
        self._request = {**request, "stream_id": lane}
        self._states = states
        self._token_ids = bool(extras.get("return_token_ids"))
        self._connection: ServerConnection | None = None
        self._inbox: Inbox | None = None
        self._waiting: asyncio.Timeout | None = None  # for a server that is lost
        self._boot_id: str | None = None  # of the server that the numbers are of
        self._is_sent = False
        self._was_cut = False
        self._refused = 0
        self._refused_at: float | None = None
        self._refusal: RadixChatError | None = None  # why it does not go on
        self._gaps = 0
        self._is_suspended = False
        self._cancelled = False
        self._failed = False
        self._given_up = False

    @property
    def ended(self) -> bool:
        """The last event was handed on: the server's, or without a server one that says so."""
        return self.answer.ended or self._given_up

    async def next(self) -> list[ResponseEvent]:
        """What has come, if only after a while; it may be nothing new.

        Raises the RadixChatError that ends it; of an answer that has begun, what keeps its server
        away is in its end.
        """
        try:
            if self._is_suspended and self._cancelled:
                return self._give_up(self._link.stopped())
            if self._inbox is None:
                try:
                    connection = await self._connection_wanted()
                except RadixChatError as error:
                    return self._give_up(error)
                await self._begin(connection)
            return await self._receive()
        except ConnectionLost:
            self._was_cut = True
            self._drop()
            return []
        except Gap:
            self._was_cut = True
            self._gaps += 1
            self._drop()
            self.answer.read_again()
            if self._gaps > MAX_GAPS:
                self._failed = True
                raise ProtocolError("a part of the answer does not come") from None
            return []
        except RadixChatError:
            self._failed = True
            raise

    async def cancel(self) -> None:
        """Have it ended, as soon as the server hears of it."""
        self._cancelled = True
        self.answer.goes_on = False
        if self._is_suspended and self._inbox is not None:  # nobody waits for the next server
            self._inbox.lose(ConnectionLost(self._link.stopped()))
        if self._waiting is not None and self.answer.response is not None:
            now = asyncio.get_running_loop().time()
            self._waiting.reschedule(now + CANCEL_SECONDS)
        await self._say_cancelled()

    async def leave(self) -> None:
        """Cancel it unless it has ended, and wait a while for its end."""
        try:
            if self._is_sent and not (self.ended or self._failed):
                with contextlib.suppress(TimeoutError, RadixChatError):
                    async with asyncio.timeout(LEAVE_SECONDS):
                        await self.cancel()
                        # Of what was never heard of, the server's own grace is the end.
                        while not self.ended and (self._inbox is not None or self.answer.response):
                            await self.next()
        finally:
            self._drop()

    async def _connection_wanted(self) -> ServerConnection:
        """Raises WaitingStopped where the answer is to end and the server stays lost."""
        patience = CANCEL_SECONDS if self._cancelled and self.answer.response else None
        try:
            async with asyncio.timeout(patience) as self._waiting:
                return await self._link.connection()
        except TimeoutError:
            raise self._link.stopped() from None
        finally:
            self._waiting = None

    async def _receive(self) -> list[ResponseEvent]:
        """What the next event brings. Raises ConnectionLost, Gap, and what is refused."""
        assert self._inbox is not None
        try:
            async with asyncio.timeout(GOODBYE_SECONDS if self._is_suspended else None):
                event = await self._inbox.get()
        except TimeoutError:
            self._drop()  # it has gone on without leaving
            return []
        if event.get("type") == "error":
            await self._wait_or_raise(error_of(event))
            return []
        before = self.answer.partial
        values = list(self._wanted(self.answer.take(event)))
        self._is_suspended = self.answer.partial is not before
        if self._cancelled and self.answer.place == 0:  # only now it has a name
            await self._say_cancelled()
        return values

    def _give_up(self, error: RadixChatError) -> list[ResponseEvent]:
        """The end of an answer whose server is away. Raises the error where it has not begun."""
        self._drop()
        if self.answer.response is None:
            raise error
        self._given_up = True
        reason = "interrupted" if isinstance(error, WaitingStopped) else SERVER_SHUTDOWN
        return list(self.answer.cut_short(error, reason))

    def _wanted(self, values: Iterator[ResponseEvent]) -> Iterator[ResponseEvent]:
        for value in values:
            match value:
                case PrefillProgress() | CacheReport() if not self._states:
                    pass
                case ResponseDone(reason=reason) if self._refusal and reason == SERVER_SHUTDOWN:
                    yield replace(value, error=describe_error(self._refusal))
                case _:
                    yield value

    async def _begin(self, connection: ServerConnection) -> None:
        """Ask, or go on, on this connection."""
        response = self.answer.response
        self._connection = connection
        if response is None:
            self._is_sent = True
            self._inbox = connection.listen(self._request["event_id"])
            self._boot_id = connection.hello["boot_id"]
            await connection.send(self._request)
            return
        if self._is_suspended or connection.hello["boot_id"] != self._boot_id:
            self._boot_id = connection.hello["boot_id"]
            self.answer.read_again()
        self._is_suspended = False
        event_id = new_event_id()
        self._inbox = connection.listen(event_id, response)
        await connection.send(
            {
                "type": "response.resume",
                "event_id": event_id,
                "response_id": response,
                "starting_after": self.answer.place,
                "x": {"continue": self.answer.goes_on, "return_token_ids": self._token_ids},
            }
        )
        if self._cancelled:
            await self._say_cancelled()

    async def _say_cancelled(self) -> None:
        """If there is a response and a connection; on the next one it is said again."""
        response, connection = self.answer.response, self._connection
        if response is not None and connection is not None:
            cancel = {"type": "response.cancel", "response_id": response}
            with contextlib.suppress(ConnectionLost):
                await connection.send({**cancel, "event_id": new_event_id()})

    async def _wait_or_raise(self, error: RadixChatError) -> None:
        """Try again where a refusal is only one for now; raise it where it is not."""
        self._refused += 1
        match error:
            case ServerDraining() | ConversationLocked() if self._was_cut:
                # The server before this one has not quite ended, or has not heard that we left.
                if self._refused > MAX_REFUSALS:
                    raise error
                if self._refused > MAX_REFUSALS // 2:
                    self._go_no_further(error)
                await self._pause(error, math.inf)
            case ConversationLocked() if error.retry_after_ms:
                await self._pause(error, self._link.backoff.busy_s)
            case ServerDraining():
                if self._refused == 1:
                    self._link.tell(f"{self._link.address.shown} is about to restart")
                await self._pause(error, self._link.backoff.patience_s)
            case InvalidRequest() if self.answer.response is not None and self.answer.goes_on:
                self._go_no_further(error)  # another model, or it has ended otherwise
            case _:
                raise error
        self._drop()

    async def _pause(self, error: ServerDraining | ConversationLocked, patience_s: float) -> None:
        """As long as the server asks. Raises the error once it has said so for that long."""
        now = asyncio.get_running_loop().time()
        self._refused_at = self._refused_at or now
        left = self._refused_at + patience_s - now
        if left <= 0:
            raise error
        try:
            await self._link.pause(min(max(error.retry_after_ms / 1000, _PAUSE_SECONDS), left))
        except WaitingStopped:
            raise error from None

    def _go_no_further(self, why: RadixChatError) -> None:
        """Have its end told, though only its server's end has made it."""
        self.answer.goes_on = False
        self._refusal = why

    def _drop(self) -> None:
        if self._connection is not None and self._inbox is not None:
            self._connection.forget(self._inbox)
        self._connection = self._inbox = None


class LanePool:
    """Names of a server's lanes, each lent to one answer: so many run beside each other."""

    def __init__(self, size: int) -> None:
        self._free = [f"lane-{index}" for index in range(size)]
        self._room = asyncio.Semaphore(size)

    @contextlib.asynccontextmanager
    async def lane(self) -> AsyncIterator[str]:
        """One that nobody else has; waits for it."""
        async with self._room:
            name = self._free.pop()
            try:
                yield name
            finally:
                self._free.append(name)


def new_event_id() -> str:
    """One that nobody has used: a principal's event ids are one namespace."""
    return uuid.uuid4().hex
