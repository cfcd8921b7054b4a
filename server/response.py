"""One response while it is in memory: the engine's events become a log, and a stored answer.

The producer is a task of its own, so a reader that goes away does not take the answer's
bookkeeping with it: whatever happens, the response is stored once and has one terminal event.
Knows no SQL: `ResponseSink` is the part of the store it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from radixchat.engine.errors import RadixChatError
from radixchat.engine.request import FinishReason, Progress, Request, TokenEvent, Usage
from radixchat.engine.thread import EngineThread
from radixchat.server.answer_record import AnswerRecord
from radixchat.server.cache_report import Found
from radixchat.server.message import Answer
from radixchat.server.protocol import (
    CacheReport,
    ErrorInfo,
    MissReport,
    PrefillProgress,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    describe_error,
)
from radixchat.server.response_log import ResponseLog, Subscription
from radixchat.server.response_usage import SOURCES

# A crash loses at most this much of an answer; one small transaction each, whatever the speed.
PARTIAL_INTERVAL_S = 0.5
# Numbers that a response may use up between two saves of a partial answer: a step takes a
# millisecond at least. One that goes on in another process numbers its deltas from there.
SEQUENCE_RESERVE = 8192
NEVER = -1.0
# Whoever has asked for a response gets so long to begin reading, also where nobody may come back.
FIRST_READER_S = 5.0


class ResponseSink(Protocol):
    """Where an answer is kept."""

    async def save_partial(self, response: str, answer: Answer, sequence: int) -> None:
        """Keep what there is so far; no delta has a higher number. Also a sign of life."""

    async def finish(self, done: ResponseDone, answer: Answer) -> None:
        """Keep the final answer."""


@dataclass(frozen=True, slots=True)
class Explanations:
    """What is said of a prompt's cache; each may take a while.

    miss: why the cache had as little of it as it had. report: where its tokens came from, given
    what was found; None where nobody wants to know.
    """

    miss: Callable[[Usage], Awaitable[MissReport | None]]
    report: Callable[[Found], Awaitable[CacheReport]] | None = None


_LOGGER = logging.getLogger(__name__)

_OUTCOMES: dict[FinishReason, tuple[str, str | None]] = {
    FinishReason.STOP: ("completed", None),
    FinishReason.LENGTH: ("incomplete", "max_output_tokens"),
    FinishReason.CONTEXT: ("incomplete", "context_length"),
    FinishReason.DEADLINE: ("incomplete", "deadline"),
    FinishReason.CANCELLED: ("incomplete", "interrupted"),
}


class LiveResponse:
    """A response from acceptance to its terminal event; `task` is done when that is published.

    detach_s: so long it goes on without any reader; then it is cancelled. NEVER: it always does.
    """

    def __init__(
        self,
        *,
        log: ResponseLog,
        request: Request,
        record: AnswerRecord,
        engine: EngineThread,
        sink: ResponseSink,
        explanations: Explanations,
        detach_s: float = NEVER,
        generate: bool = True,
    ) -> None:
        """request: with its `text`. generate: False ends it, completed, with the prompt's end."""
        assert request.text is not None, "an answer is text"
        self.id = log.created.response
        self.log = log
        self._request = request
        self._record = record
        self._engine = engine
        self._sink = sink
        self._explanations = explanations
        self._detach_s = detach_s
        self._generate = generate
        self._cancelled: str | None = None  # why
        self._reports: set[asyncio.Task[None]] = set()
        self._grace: asyncio.TimerHandle | None = None
        log.on_left = self._left
        self.task = asyncio.create_task(self._produce(), name=self.id)
        self._await_reader(max(detach_s, FIRST_READER_S) if detach_s >= 0 else NEVER)

    @property
    def created(self) -> ResponseCreated:
        """Its first event."""
        return self.log.created

    @property
    def done(self) -> ResponseDone | None:
        """Its last event, once it has ended."""
        return self.log.done

    def cancel(self, reason: str = "interrupted") -> None:
        """Stop at the next step; the answer so far is kept. A finished response stays as it is."""
        if not self.task.done():
            self._cancelled = self._cancelled or reason
            self._engine.cancel(self._request.id)

    async def stop(self) -> None:
        """Cancel it, and return when it has ended."""
        self.cancel()
        await asyncio.wait({self.task})

    def subscribe(self, wake: Callable[[], None] | None = None, after: int = -1) -> Subscription:
        """A reader's place in the log; ResponseLog says what it returns."""
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        return self.log.subscribe(wake, after)

    async def events(self) -> AsyncGenerator[ResponseEvent]:
        """The log from its beginning, then what comes, up to the terminal event."""
        with contextlib.closing(self.subscribe()) as reader:
            while not reader.ended:
                for event in reader.take():
                    yield event
                await reader.wait()

    @property
    def answer(self) -> Answer:
        """What was generated and shown so far."""
        return self._record.answer

    def _left(self) -> None:
        """Nobody reads it: give them time to come back."""
        self._await_reader(self._detach_s)

    def _await_reader(self, seconds: float) -> None:
        if seconds >= 0 and not self.task.done():
            self._grace = asyncio.get_running_loop().call_later(seconds, self.cancel)

    async def _produce(self) -> None:
        """Generate, store, tell: whatever fails on the way, there is one terminal event."""
        keeper = asyncio.create_task(self._keep_partials())
        try:
            done = await self._run()
        except Exception as failure:  # noqa: BLE001 - a bug ends this response, and no other
            done = self._done("failed", None, self._explain(failure))
        finally:
            keeper.cancel()
            await asyncio.wait({keeper, *self._reports})
        try:
            await self._sink.finish(done, self.answer)
        except Exception as failure:  # noqa: BLE001 - whatever it is, the reader must hear of it
            done = replace(done, status="failed", reason=None, error=self._explain(failure))
        if self._grace is not None:
            self._grace.cancel()
        self.log.end(done)

    async def _run(self) -> ResponseDone:
        """Run the request to its end, whichever it is."""
        self._record.submitted_at = time.monotonic()
        if self._cancelled is not None:
            return self._done("incomplete", self._cancelled)
        stream = self._engine.generate(self._request)
        event: TokenEvent | None = None
        async with contextlib.aclosing(stream):
            async for event in stream:
                self._take(event)
        assert event is not None, "the engine's last event says how the request ended"
        assert event.finish is not None
        status, reason = _OUTCOMES[event.finish]
        if event.finish is FinishReason.CANCELLED:
            reason = self._cancelled or reason
        elif not self._generate:
            status, reason = "completed", None
        done = self._done(status, reason)
        return replace(done, miss=await self._find_miss(event.usage))

    async def _find_miss(self, usage: Usage | None) -> MissReport | None:
        if usage is None or usage.output_tokens == 0:
            return None
        try:
            return await self._explanations.miss(usage)
        except RadixChatError:
            return None  # the store cannot be read; the final write tells
        except Exception:
            # The answer is there and counts; what is said about its cost can be missing.
            _LOGGER.exception("response %s: its cache miss was not explained", self.id)
            return None

    def _explain(self, failure: Exception) -> ErrorInfo:
        """A failure as the terminal event tells it; a bug of ours is logged, too."""
        if not isinstance(failure, RadixChatError):
            _LOGGER.error("response %s failed", self.id, exc_info=failure)
        return describe_error(failure)

    def _take(self, event: TokenEvent) -> None:
        if event.progress is not None:
            self._show(event.progress, event.at)
        elif text := self._record.take(event):
            self.log.add_text(text)

    def _show(self, progress: Progress, at: float) -> None:
        report = self._explanations.report
        if report is not None and not self._reports:  # with the first chunk

            async def tell() -> None:
                try:
                    self.log.show(await report(_found(progress)))
                except Exception:
                    _LOGGER.exception("response %s: its prompt was not explained", self.id)

            self._reports.add(asyncio.create_task(tell()))
        time_ms = round((at - self._record.submitted_at) * 1000, 3)
        self.log.show(
            PrefillProgress(
                self.id, self._request.num_prompt, progress.cached, progress.processed, time_ms
            )
        )

    async def _keep_partials(self) -> None:
        """Runs until it is cancelled; a save that fails (a full disk) is tried again in a while."""
        while True:
            await asyncio.sleep(PARTIAL_INTERVAL_S)
            try:
                reserved = self.log.last_sequence + SEQUENCE_RESERVE
                await self._sink.save_partial(self.id, self._record.whole, reserved)
            except RadixChatError:
                pass  # if it lasts, the final write tells
            except Exception:
                _LOGGER.exception("response %s: a part of the answer was not saved", self.id)

    def _done(
        self, status: str, reason: str | None, error: ErrorInfo | None = None
    ) -> ResponseDone:
        sequence = self.log.end_sequence(status if self._generate else "incomplete")
        return self._record.done(self.created, status, reason, sequence=sequence, error=error)


def _found(progress: Progress) -> Found:
    below = (progress.host, progress.disk, progress.store)
    return tuple(zip(SOURCES, (progress.cached - sum(below), *below), strict=True))
