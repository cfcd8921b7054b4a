"""Several answers to one message, computed beside each other, and which of them goes on.

    first    ─ streams ────┐ shown as it comes, by a Turn
    second   ─ collected ──┤ shown as a whole, after the first
    third    ─ collected ──┘

Owns the answers that are on their way and not shown yet. Knows no command.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace

from radixchat.chat_cli.chooser import Chooser
from radixchat.chat_cli.client import ChatClient
from radixchat.chat_cli.interrupts import Interrupts, Target
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.refusal import refusal_of
from radixchat.chat_cli.render import Output
from radixchat.chat_cli.turn import TICK_SECONDS, Turn, failed
from radixchat.server.protocol import (
    OutputTextDelta,
    RadixChatError,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseOptions,
)

_SEEDS = 2**63


class Siblings:
    """`run` them once, then `choose`. What a signal stops, it stops of all of them."""

    def __init__(
        self,
        client: ChatClient,
        conversation: str,
        options: ResponseOptions,
        count: int,
        output: Output,
        interrupts: Interrupts,
        notes: Notes,
    ) -> None:
        """count: how many; 2 or more. A seed is the first answer's; each has the next one."""
        self._client = client
        self._conversation = conversation
        self._options = options
        self._count = count
        self._output = output
        self._interrupts = interrupts
        self._notes = notes
        self._others: list[_Sibling] = []
        self._abandoned = False

    async def run(self, accepted: Callable[[ResponseCreated], None]) -> tuple[ResponseDone, ...]:
        """Their records, all of them shown; only the first where that was refused.

        accepted: is told of the first before anything of it is shown. Raises what Turn.run raises;
        none of them runs on then.
        """
        loop = asyncio.get_running_loop()

        def begun(created: ResponseCreated) -> None:
            accepted(created)
            self._begin_others(created.response)

        first = Turn(
            self._client,
            self._conversation,
            self._client.regenerate(self._conversation, self._options),
            self._output,
            self._interrupts,
            begun,
            self._notes.note,
        )
        target = Target(lambda: self._stop_from_handler(loop), self._abandon_from_handler)
        try:
            with self._interrupts.directed_to(target):
                answers = [await first.run()]
                if self._interrupts.stopped_by is not None:
                    self._stop()
                for number, other in enumerate(self._others, 2):
                    answers.append(await self._show(number, other))
        except SystemExit:
            self._abandoned = True  # whoever leaves in haste waits for nothing
            raise
        finally:
            await self._end_others()
        return tuple(answers)

    async def choose(
        self, answers: Sequence[ResponseDone], chooser: Chooser | None
    ) -> ResponseDone:
        """The one that goes on, which the conversation's tip is then. Raises RadixChatError.

        Who cannot be asked, or says nothing, goes on with the first that there is anything of.
        """
        choice = {
            str(number): answer
            for number, answer in enumerate(answers, 1)
            if answer.status != "failed" and answer.output_text
        }
        if not choice:
            return answers[0]
        keys = "".join(choice)
        key = None
        if len(choice) > 1 and chooser is not None and self._interrupts.leaving is None:
            question = f"which answer goes on? {', '.join(choice)}; Enter keeps {keys[0]}"
            key = await chooser.choose(question, keys)
        number = key or keys[0]
        chosen = choice[number]
        if chosen is not answers[0]:
            await self._client.update_conversation(self._conversation, tip=chosen.response)
        if len(answers) > 1:
            self._notes.aside(
                f"answer {number} of {self._count} goes on; /tree shows the others, "
                "/switch #N takes one of them"
            )
        return chosen

    def _begin_others(self, first: str) -> None:
        if self._options.temperature == 0:
            self._notes.note("at temperature 0 the answers are all alike")
        self._notes.heading(f"answer 1 of {self._count}")
        for index in range(1, self._count):
            seed = self._options.seed
            if seed is not None:
                seed = (seed + index) % _SEEDS
            events = self._client.sibling(first, replace(self._options, seed=seed))
            self._others.append(_Sibling(self._client, self._conversation, events))

    async def _show(self, number: int, other: _Sibling) -> ResponseDone:
        with self._notes.during(f"answer {number} of {self._count} is on its way"):
            while not (other.reading.done() or self._abandoned):
                await asyncio.wait({other.reading}, timeout=TICK_SECONDS)
        if self._abandoned:
            raise SystemExit(self._interrupts.leaving)
        done = await other.reading
        self._notes.heading(f"answer {number} of {self._count}")
        if done.response is not None:
            answer = self._output.begin()
            try:
                answer.feed(other.text)
            finally:
                answer.close()
        self._output.conclude(done, self._interrupts.stopped_by)
        return done

    async def _end_others(self) -> None:
        for other in self._others:
            other.reading.cancel()
        if not self._abandoned:
            await asyncio.gather(*(other.ended() for other in self._others))

    def _stop_from_handler(self, loop: asyncio.AbstractEventLoop) -> None:
        self._interrupts.note_stop()
        loop.call_soon_threadsafe(self._stop)

    def _abandon_from_handler(self) -> None:
        self._abandoned = True

    def _stop(self) -> None:
        for other in self._others:
            other.stop()


class _Sibling:
    """An answer that is collected; `reading` gives its record. text: what has come of it."""

    def __init__(
        self, client: ChatClient, conversation: str, events: AsyncGenerator[ResponseEvent]
    ) -> None:
        self.text = ""
        self._client = client
        self._conversation = conversation
        self._events = events
        self._response: str | None = None
        self._stopping = False
        self._cancelling: asyncio.Task[None] | None = None
        self.reading = asyncio.create_task(self._read())

    def stop(self) -> None:
        """Have it ended, as soon as it has begun."""
        self._stopping = True
        if self._response is not None and self._cancelling is None:
            self._cancelling = asyncio.create_task(self._client.cancel(self._response))

    async def ended(self) -> None:
        """Nothing of it runs any more, whatever became of it."""
        running = [self.reading] if self._cancelling is None else [self.reading, self._cancelling]
        await asyncio.gather(*running, return_exceptions=True)

    async def _read(self) -> ResponseDone:
        deltas: list[str] = []
        done: ResponseDone | None = None
        try:
            async with contextlib.aclosing(self._events):
                async for event in self._events:
                    match event:
                        case ResponseCreated():
                            self._response = event.response
                            if self._stopping:
                                self.stop()
                        case OutputTextDelta():
                            deltas.append(event.delta)
                        case ResponseDone():
                            done = event
        except RadixChatError as error:
            refusal = refusal_of(error, self._conversation)
            done = failed(self._conversation, self._response, refusal)
        finally:
            self.text = "".join(deltas)
        assert done is not None, "a response ended without its terminal event"
        return done
