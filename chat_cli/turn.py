"""One turn from its first event to its last, with signals that stop it on the way.

Owns the running iteration. Knows no command and no store: it is given the events.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from radixchat.chat_cli.client import ChatClient
from radixchat.chat_cli.interrupts import Interrupts, Target
from radixchat.chat_cli.refusal import refusal_of
from radixchat.chat_cli.render import Answer, Output
from radixchat.server.protocol import (
    ErrorInfo,
    OutputTextDelta,
    RadixChatError,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseTimings,
    ResponseUsage,
)

TICK_SECONDS = 0.05
PATIENCE_SECONDS = 1.0
"""How long somebody who has stopped an answer sees nothing of it."""
_STOPPING = "stopping …; Ctrl-C again leaves"


def failed(conversation: str | None, response: str | None, error: ErrorInfo) -> ResponseDone:
    """The record of a turn without a terminal event; no response: it was refused."""
    return ResponseDone(
        conversation=conversation,
        response=response,
        status="failed",
        reason=None,
        output_text="",
        usage=ResponseUsage(0, 0, 0, 0),
        timings=ResponseTimings(None, None, None),
        input_ids=(),
        output_ids=(),
        error=error,
    )


class Turn:
    """Shows the events of one response on an output; `run` it once."""

    def __init__(
        self,
        client: ChatClient,
        conversation: str,
        events: AsyncGenerator[ResponseEvent],
        output: Output,
        interrupts: Interrupts,
        accepted: Callable[[ResponseCreated], None],
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        """accepted: is told of the response before anything of it is shown.

        tell: is told what has no place in the answer's own rows.
        """
        self._client = client
        self._conversation = conversation
        self._events = events
        self._output = output
        self._interrupts = interrupts
        self._accepted = accepted
        self._tell = tell
        self._answer: Answer | None = None
        self._response: str | None = None
        self._stopping_since: float | None = None
        self._told = False
        self._abandoned = False
        self._cancelling: asyncio.Task[None] | None = None

    async def run(self) -> ResponseDone:
        """Until the response has ended, by itself or stopped; shown when this returns.

        Raises SystemExit when the user leaves without waiting for that, and OSError when the
        output is gone; the response is cancelled then. The events are closed on every way out,
        but for the first of these.
        """
        loop = asyncio.get_running_loop()
        self._interrupts.note_start()
        reading = asyncio.ensure_future(self._read())
        target = Target(
            stop=lambda: self._stop_from_handler(loop),
            abandon=self._abandon_from_handler,
        )
        try:
            with self._interrupts.directed_to(target):
                while not (reading.done() or self._abandoned):
                    await asyncio.wait({reading}, timeout=TICK_SECONDS)
                    if self._answer is not None:
                        self._answer.tick()
                    self._say_stopping(loop.time())
            done = await self._ended(reading)
        finally:
            reading.cancel()
            if not self._abandoned:
                await asyncio.gather(reading, return_exceptions=True)
            if self._answer is not None:
                self._answer.close()
        self._output.conclude(done, self._interrupts.stopped_by)
        return done

    async def _ended(self, reading: asyncio.Task[ResponseDone]) -> ResponseDone:
        if self._abandoned:
            raise SystemExit(self._interrupts.leaving)
        if self._cancelling is not None:
            # The terminal event tells how it ended, whatever became of asking for it.
            with contextlib.suppress(RadixChatError):
                await self._cancelling
        return await reading

    async def _read(self) -> ResponseDone:
        done: ResponseDone | None = None
        try:
            async with contextlib.aclosing(self._events):
                async for event in self._events:
                    match event:
                        case ResponseCreated():
                            self._response = event.response
                            self._accepted(event)
                            self._answer = self._output.begin()
                            self._cancel_if_asked()
                        case OutputTextDelta():
                            assert self._answer is not None
                            self._answer.feed(event.delta)
                        case ResponseDone():
                            done = event
        except RadixChatError as error:
            refusal = refusal_of(error, self._conversation)
            return failed(self._conversation, self._response, refusal)
        assert done is not None, "a response ended without its terminal event"
        return done

    def _stop_from_handler(self, loop: asyncio.AbstractEventLoop) -> None:
        self._interrupts.note_stop()
        loop.call_soon_threadsafe(self._stop)

    def _abandon_from_handler(self) -> None:
        self._abandoned = True

    def _stop(self) -> None:
        if self._stopping_since is None:
            self._stopping_since = asyncio.get_running_loop().time()
        self._cancel_if_asked()

    def _say_stopping(self, now: float) -> None:
        """That the end is on its way, where it takes its time."""
        since, leaves = self._stopping_since, self._interrupts.leaving is not None
        if since is None or now - since < PATIENCE_SECONDS or self._told or leaves:
            return
        if not self._output.remark(_STOPPING):
            self._told = True
            self._tell(_STOPPING)

    def _cancel_if_asked(self) -> None:
        if self._stopping_since is not None and self._response and self._cancelling is None:
            self._cancelling = asyncio.ensure_future(self._client.cancel(self._response))
