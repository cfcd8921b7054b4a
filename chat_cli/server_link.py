"""`ServerLink`: a connection to a server whenever somebody needs one.

Owns when a lost server is tried again, and when it is given up. A link that nobody needs stays
lost. Knows no exchange: whoever had one on a lost connection takes it up on the next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from radixchat.chat_cli.backoff import Backoff
from radixchat.chat_cli.connection_loss import ConnectionLost
from radixchat.chat_cli.inbox import Event
from radixchat.chat_cli.server_address import ServerAddress
from radixchat.chat_cli.server_connection import ServerConnection
from radixchat.server.protocol import ServerDraining, ServerUnreachable


class WaitingStopped(ServerUnreachable):
    """The server is lost, and whoever waited for it does not want to any more."""


class ServerLink:
    """One at a time, shared by all exchanges of a client; used on one event loop."""

    def __init__(
        self,
        address: ServerAddress,
        key: str | None,
        backoff: Backoff,
        tell: Callable[[str], None],
    ) -> None:
        """tell: is told in words when the server is lost, and when it is back."""
        self.address = address
        self.backoff = backoff
        self._key = key
        self.tell = tell
        self._connection: ServerConnection | None = None
        self._connecting = asyncio.Lock()
        self._reconnecting: asyncio.Task[ServerConnection] | None = None
        self._num_stops = 0
        self._stopped = asyncio.Event()
        self._tries = 0
        self._lost_at: float | None = None

    @property
    def hello(self) -> Event:
        """What the server has said of itself, last."""
        assert self._connection is not None, "the link is open"
        return self._connection.hello

    @property
    def is_up(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._connection is not None and self._connection.loss is None

    async def open(self, patience_s: float) -> None:
        """The first connection, tried once; a server that says that it is not ready, for so long.

        Raises the RadixChatError that prevents it.
        """
        loop = asyncio.get_running_loop()
        give_up, tries = loop.time() + patience_s, 0
        while self._connection is None:
            try:
                self._connection = await ServerConnection.open(self.address, self._key, self._heard)
            except ConnectionLost as lost:
                delay = self.backoff.delay_s(tries, lost.retry_after_s)
                is_loading = isinstance(lost.error, ServerDraining) and not lost.is_final
                if not is_loading or loop.time() + delay > give_up:
                    raise lost.error from lost
                if tries == 0:
                    self.tell(f"{self.address.shown} is not ready: {lost.error}; waiting for it")
                await asyncio.sleep(delay)
                tries += 1

    async def connection(self) -> ServerConnection:
        """One that is up, as far as is known; waits for the server to come back.

        Raises the RadixChatError for which it does not, ServerUnreachable when patience is out,
        WaitingStopped after stop_waiting.
        """
        num_stops = self._num_stops
        async with self._connecting:
            assert self._connection is not None, "the link is open"
            if self._connection.loss is not None:
                if num_stops != self._num_stops:
                    raise self.stopped()
                self._connection = await self._reconnected(self._connection.loss)
            return self._connection

    async def pause(self, seconds: float) -> None:
        """Wait before something is asked again. Raises WaitingStopped after stop_waiting."""
        stopped = self._stopped
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stopped.wait()
                raise WaitingStopped("you have stopped waiting")

    def stop_waiting(self) -> None:
        """Whoever waits for the server now waits no longer; who asks later does."""
        self._num_stops += 1
        self._stopped.set()
        self._stopped = asyncio.Event()
        if self._reconnecting is not None:
            self._reconnecting.cancel()

    async def close(self) -> None:
        """Leave."""
        if self._connection is not None:
            await self._connection.close()

    async def _reconnected(self, loss: ConnectionLost) -> ServerConnection:
        """In a task of its own: to stop waiting is not to cancel whoever waits."""
        task = self._reconnecting = asyncio.create_task(self._reconnect(loss))
        try:
            await asyncio.wait({task})
        finally:
            self._reconnecting = None
            if not task.done():
                task.cancel()
                self._forget_tries()
        if task.cancelled():
            self._forget_tries()
            raise self.stopped()
        return task.result()

    def stopped(self) -> WaitingStopped:
        """What to raise where nobody waits any more."""
        return WaitingStopped(f"{self.address.shown} is lost; you have stopped waiting for it")

    async def _reconnect(self, loss: ConnectionLost) -> ServerConnection:
        loop = asyncio.get_running_loop()
        if self._lost_at is None:
            self._lost_at = loop.time()
            self.tell(f"{self.address.shown} is lost; trying to get it back")
        give_up = self._lost_at + self.backoff.patience_s
        while not loss.is_final:
            delay = self.backoff.delay_s(self._tries, loss.retry_after_s)
            if loop.time() + delay > give_up:
                seconds = loop.time() - self._lost_at
                self._forget_tries()
                message = f"{self.address.shown} is gone since {seconds:.0f} s: {loss.error}"
                raise ServerUnreachable(message) from loss
            await asyncio.sleep(delay)
            self._tries += 1
            try:
                return await ServerConnection.open(self.address, self._key, self._heard)
            except ConnectionLost as lost:
                loss = lost
        self._forget_tries()
        raise loss.error from loss

    def _heard(self) -> None:
        """The server answers: only now it is back. One that only accepts would be tried for ever,
        without a pause."""
        if self._lost_at is not None:
            self._forget_tries()
            self.tell(f"{self.address.shown} is back")

    def _forget_tries(self) -> None:
        self._tries, self._lost_at = 0, None
