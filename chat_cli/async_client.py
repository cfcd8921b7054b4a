"""`AsyncChatClient`: conversations at a server, over a WebSocket that may break at any time.

    async with AsyncChatClient("ws://127.0.0.1:8000", key=key) as client:
        conversation = await client.create_conversation("You are terse.")
        async for event in client.send(conversation, "Hi", ResponseOptions()):
            ...

A `ChatClient` like the service in the process: the same events, the same exceptions. A connection
that is lost is made again, and an answer goes on where it was; what is asked is not done twice.
Imports no engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any, Self

from radixchat.chat_cli.answer_exchange import AnswerExchange, LanePool, new_event_id
from radixchat.chat_cli.answer_request import AnswerRequest
from radixchat.chat_cli.backoff import Backoff
from radixchat.chat_cli.connection_loss import ConnectionLost
from radixchat.chat_cli.inbox import Event
from radixchat.chat_cli.server_address import ServerAddress
from radixchat.chat_cli.server_connection import ServerConnection
from radixchat.chat_cli.server_link import ServerLink
from radixchat.server.event_reader import message_view, message_views
from radixchat.server.protocol import MessageView, ResponseEvent, ResponseOptions

_PAGE = 50
DEFAULT_BACKOFF = Backoff()


def _tell_nobody(text: str) -> None:
    """Whoever does not listen is told nothing."""


class AsyncChatClient:
    """One principal's conversations at one server; answers of several may run beside each other.

    Every method raises the RadixChatError that the service raises; besides KeyRefused,
    ServerUnreachable (nobody there, or not back in time) and ProtocolError. Used on one event loop.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        request: AnswerRequest | None = None,
        tell: Callable[[str], None] = _tell_nobody,
        backoff: Backoff = DEFAULT_BACKOFF,
    ) -> None:
        """url: `ws://HOST:PORT` or `http://HOST:PORT`, with `wss` or `https` under TLS.

        tell: is told in words when the server is lost, and when it is back. Raises ConfigError.
        """
        self.address = ServerAddress.parse(url)
        self._sends_key = key is not None
        self._link = ServerLink(self.address, key, backoff, tell)
        self._request = request or AnswerRequest()
        self._exchanges: dict[str, AnswerExchange] = {}
        self._lanes: LanePool | None = None
        self._abandoned: set[str] = set()

    async def __aenter__(self) -> Self:
        """Connect, once. Raises the RadixChatError that prevents it."""
        await self._link.open()
        self._lanes = LanePool(self._link.hello["limits"]["max_lanes"])
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._link.close()

    @property
    def model_name(self) -> str:
        """The server's model."""
        return str(self._link.hello["model"])

    @property
    def n_ctx(self) -> int:
        """Tokens that a conversation may have."""
        return int(self._link.hello["limits"]["n_ctx"])

    @property
    def notices(self) -> tuple[str, ...]:
        """What to tell once at the start."""
        address = self.address
        exposed = self._sends_key and not (address.is_local or address.is_encrypted)
        own = (f"the key goes to {address.shown} unencrypted",) if exposed else ()
        return (*own, *self._link.hello.get("notices", ()))

    async def create_conversation(self, system: str | None = None) -> str:
        """A new, empty conversation's id."""
        created = await self._ask("session.create", instructions=system)
        return str(created["session"]["id"])

    async def latest_conversation(self) -> str | None:
        """The conversation with a turn that was changed last."""
        after: str | None = None
        while True:
            page = await self._ask("session.list", limit=_PAGE, after=after)
            for session in page["sessions"]:
                if session["num_turns"]:
                    return str(session["id"])
            if not page["has_more"]:
                return None
            after = page["sessions"][-1]["id"]

    async def resolve_conversation(self, id_or_prefix: str) -> str:
        """The full id. Raises ConversationNotFound: unknown or ambiguous."""
        resolved = await self._ask("session.resolve", prefix=id_or_prefix)
        return str(resolved["session_id"])

    async def messages(self, conversation: str) -> list[MessageView]:
        """The path at the conversation's tip, oldest first."""
        return message_views(await self._ask("session.get", session_id=conversation))

    def send(
        self, conversation: str, text: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Add the user's message and answer it. Leaving the iteration cancels the response."""
        return self._answer(self._request.create(new_event_id(), conversation, text, options))

    def edit(
        self, conversation: str, turn: int, text: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Answer the conversation as if its user turn `turn` (from 1) had been `text`."""
        return self._answer(self._request.create(new_event_id(), conversation, text, options, turn))

    def regenerate(
        self, conversation: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Answer the last user's message again."""
        return self._answer(self._request.regenerate(new_event_id(), conversation, options))

    async def undo(self, conversation: str) -> MessageView:
        """Remove the last turn, once; its user's message."""
        before = await self._ask("session.get", session_id=conversation)
        while True:
            connection = await self._link.connection()
            try:
                undone = await connection.ask(_event("session.undo", session_id=conversation))
            except ConnectionLost:
                now = await self._ask("session.get", session_id=conversation)
                if now["session"]["tip"] == before["session"]["tip"]:
                    continue  # it had not been heard
                users = [view for view in message_views(before) if view.role == "user"]
                if users:
                    return users[-1]
            else:
                return message_view(undone["message"])

    async def close_conversation(self, conversation: str) -> None:
        """Say that nobody is about to go on with it; a server that is lost need not hear it."""
        if self._link.is_up:
            connection = await self._link.connection()
            with contextlib.suppress(ConnectionLost):
                await connection.ask(_event("session.close", session_id=conversation))

    async def cancel(self, response: str) -> None:
        """End a response: its iterator ends incomplete, "interrupted"."""
        exchange = self._exchanges.get(response)
        if exchange is not None:
            await exchange.cancel()
            return
        while True:
            connection = await self._link.connection()
            try:
                # Nothing answers a cancel but a refusal, which comes before the pong.
                await connection.ask(
                    _event("response.cancel", response_id=response), _event("ping")
                )
            except ConnectionLost:
                continue
            return

    def stop_waiting(self) -> None:
        """Do not wait for a lost server any longer: what does raises WaitingStopped.

        An answer that has begun ends incomplete, with what has come of it.
        """
        self._link.stop_waiting()

    async def stats(self) -> dict[str, int | float | str]:
        """Figures of the server's engine and its cache, by name."""
        reply = await self._ask("server.stats")
        return {"server": self.address.shown, **reply["stats"]}

    async def _answer(self, request: dict[str, Any]) -> AsyncGenerator[ResponseEvent]:
        """Ask, and hand on what comes; whoever leaves cancels it."""
        assert self._lanes is not None, "the client is entered"
        async with self._lanes.lane() as lane:
            states = self._request.progress
            exchange = AnswerExchange(self._link, request, lane, states=states)
            try:
                while not exchange.ended:
                    for event in await exchange.next():
                        if exchange.answer.response is not None:
                            self._exchanges[exchange.answer.response] = exchange
                        yield event
            finally:
                await exchange.leave()
                response = exchange.answer.response
                if response is not None:
                    self._exchanges.pop(response, None)
                    if not exchange.answer.ended:
                        self._abandoned.add(response)

    async def _ask(self, type_: str, **fields: Any) -> Event:
        """The reply; asked again where the connection was lost before it came."""
        while True:
            connection = await self._link.connection()
            try:
                await self._cancel_abandoned(connection)
                return await connection.ask(_event(type_, **fields))
            except ConnectionLost:
                continue

    async def _cancel_abandoned(self, connection: ServerConnection) -> None:
        """Have ended what was left while nobody could be told: else it runs for its grace."""
        while self._abandoned:
            response = next(iter(self._abandoned))
            await connection.send(_event("response.cancel", response_id=response))
            self._abandoned.discard(response)


def _event(type_: str, **fields: Any) -> dict[str, Any]:
    given = {name: value for name, value in fields.items() if value is not None}
    return {"type": type_, "event_id": new_event_id(), **given}
