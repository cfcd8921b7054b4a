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

from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any, Self

from radixchat.chat_cli.answer_exchange import AnswerExchange, LanePool, new_event_id
from radixchat.chat_cli.answer_request import AnswerRequest
from radixchat.chat_cli.backoff import Backoff
from radixchat.chat_cli.connection_loss import ConnectionLost
from radixchat.chat_cli.remote_conversations import (
    RemoteConversations,
    asking,
    conversation_id,
    response_id,
)
from radixchat.chat_cli.server_address import ServerAddress
from radixchat.chat_cli.server_key import usable_key
from radixchat.chat_cli.server_link import ServerLink
from radixchat.server.message import check_text
from radixchat.server.protocol import ResponseEvent, ResponseOptions

DEFAULT_BACKOFF = Backoff()


def _tell_nobody(text: str) -> None:
    """Whoever does not listen is told nothing."""


class AsyncChatClient(RemoteConversations):
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
        patience_s: float = 0.0,
    ) -> None:
        """url: `ws://HOST:PORT` or `http://HOST:PORT`, with `wss` or `https` under TLS.

        tell: is told in words when the server is lost, and when it is back. patience_s: so long
        entering waits for a server that is there and not ready, as one that is loading its model.
        Raises ConfigError.
        """
        self.address = ServerAddress.parse(url)
        key = usable_key(key)
        super().__init__(ServerLink(self.address, key, backoff, tell))
        self._patience_s = patience_s
        self._sends_key = key is not None
        self._request = request or AnswerRequest()
        self._exchanges: dict[str, AnswerExchange] = {}
        self._lanes: LanePool | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises the RadixChatError that prevents it."""
        await self._link.open(self._patience_s)
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

    @property
    def is_lost(self) -> bool:
        """Whether there is no connection now, as far as is known."""
        return not self._link.is_up

    def send(
        self, conversation: str, text: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Add the user's message and answer it. Leaving the iteration cancels the response."""
        return self._create(conversation, text, options)

    def edit(
        self, conversation: str, turn: int, text: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Answer the conversation as if its user turn `turn` (from 1) had been `text`."""
        return self._create(conversation, text, options, turn)

    def regenerate(
        self, conversation: str, options: ResponseOptions
    ) -> AsyncGenerator[ResponseEvent]:
        """Answer the last user's message again."""
        ask = self._request.regenerate
        return self._answer(lambda event: ask(event, conversation_id(conversation), options))

    def sibling(self, response: str, options: ResponseOptions) -> AsyncGenerator[ResponseEvent]:
        """Another answer beside a response's; no conversation moves to it."""
        ask = self._request.sibling
        return self._answer(lambda event: ask(event, response_id(response), options))

    def extend(self, conversation: str, options: ResponseOptions) -> AsyncGenerator[ResponseEvent]:
        """Go on with the last answer, which was cut short: a longer one that begins with it."""
        ask = self._request.extend
        return self._answer(lambda event: ask(event, conversation_id(conversation), options))

    async def cancel(self, response: str) -> None:
        """End a response: its iterator ends incomplete, "interrupted"."""
        exchange = self._exchanges.get(response)
        if exchange is not None:
            await exchange.cancel()
            return
        response_id(response)
        while True:
            connection = await self._link.connection()
            try:
                # Nothing answers a cancel but a refusal, which comes before the pong.
                await connection.ask(
                    asking("response.cancel", response_id=response), asking("ping")
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

    def _create(
        self, conversation: str, text: str, options: ResponseOptions, edit_turn: int | None = None
    ) -> AsyncGenerator[ResponseEvent]:
        def request(event: str) -> dict[str, Any]:
            check_text("the message", text)
            id_ = conversation_id(conversation)
            return self._request.create(event, id_, text, options, edit_turn)

        return self._answer(request)

    async def _answer(
        self, asked: Callable[[str], dict[str, Any]]
    ) -> AsyncGenerator[ResponseEvent]:
        """Ask, and hand on what comes; whoever leaves cancels it.

        asked: the event that asks, given its id; refused like any other before it is sent.
        """
        assert self._lanes is not None, "the client is entered"
        request = asked(new_event_id())
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
                try:
                    await exchange.leave()
                finally:
                    self._forget(exchange)

    def _forget(self, exchange: AnswerExchange) -> None:
        """Nobody reads it any more; where its end was not heard, it is to be ended."""
        response = exchange.answer.response
        if response is not None:
            self._exchanges.pop(response, None)
            if not exchange.answer.ended:
                self._abandoned.add(response)
