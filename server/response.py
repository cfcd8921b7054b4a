"""One running response: the engine's tokens become text, a log of events, and a stored answer.

The producer is a task of its own, so a consumer that goes away does not take the answer's
bookkeeping with it: whatever happens, the response is stored once and has one terminal event.
Knows no SQL: `ResponseSink` is the part of the store it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from radixchat.engine.errors import RadixChatError
from radixchat.engine.request import FinishReason, Request, Usage
from radixchat.engine.thread import EngineThread
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.message import Answer
from radixchat.server.protocol import (
    ErrorInfo,
    MissReport,
    OutputTextDelta,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseTimings,
    ResponseUsage,
    describe_error,
)

# A crash loses at most this much of an answer; one small transaction each, whatever the speed.
PARTIAL_INTERVAL_S = 0.5


class ResponseSink(Protocol):
    """Where an answer is kept."""

    async def save_partial(self, response: str, answer: Answer) -> None:
        """Keep what there is so far; also a sign of life."""

    async def finish(self, done: ResponseDone, answer: Answer) -> None:
        """Keep the final answer."""


_LOGGER = logging.getLogger(__name__)

_OUTCOMES: dict[FinishReason, tuple[str, str | None]] = {
    FinishReason.STOP: ("completed", None),
    FinishReason.LENGTH: ("incomplete", "max_output_tokens"),
    FinishReason.CONTEXT: ("incomplete", "context_length"),
    FinishReason.CANCELLED: ("incomplete", "interrupted"),
}


class RunningResponse:
    """A response from acceptance to its terminal event; `task` is done when that is published."""

    def __init__(
        self,
        *,
        conversation: str,
        response: str,
        request: Request,
        accepted_at: float,
        engine: EngineThread,
        tokenizer: Tokenizer,
        sink: ResponseSink,
        explain: Callable[[Usage], Awaitable[MissReport | None]],
    ) -> None:
        """explain: tells why the cache had as little of the prompt as it had."""
        self.id = response
        self._conversation = conversation
        self._request = request
        self._prompt_ids = tuple(request.tokens)
        self._accepted_at = accepted_at
        self._engine = engine
        self._decode = tokenizer.stream()
        self._sink = sink
        self._explain_miss = explain
        self._log: list[ResponseEvent] = [ResponseCreated(conversation, response)]
        self._news = asyncio.Event()
        self._text: list[str] = []
        self._output_ids: list[int] = []
        self._stop_tokens = 0
        self._cancelled = False
        self._submitted_at = self._first_at = self._last_at = 0.0
        self.task = asyncio.create_task(self._produce(), name=response)

    def cancel(self) -> None:
        """Stop at the next step; the answer so far is kept. A finished response stays as it is."""
        if not self.task.done():
            self._cancelled = True
            self._engine.cancel(self._request.id)

    async def events(self) -> AsyncGenerator[ResponseEvent]:
        """The log from its beginning, then what comes, up to the terminal event."""
        position = 0
        while True:
            while position < len(self._log):
                event = self._log[position]
                position += 1
                yield event
                if isinstance(event, ResponseDone):
                    return
            self._news.clear()
            await self._news.wait()

    @property
    def answer(self) -> Answer:
        """What was generated so far."""
        ids = self._output_ids[: len(self._output_ids) - self._stop_tokens]
        return Answer("".join(self._text), tuple(ids))

    async def _produce(self) -> None:
        """Generate, store, tell: whatever fails on the way, there is one terminal event."""
        keeper = asyncio.create_task(self._keep_partials())
        try:
            done = await self._generate()
        except Exception as failure:  # noqa: BLE001 - a bug ends this response, and no other
            done = self._done("failed", None, None, self._explain(failure))
        finally:
            keeper.cancel()
            await asyncio.wait({keeper})
        try:
            await self._sink.finish(done, self.answer)
        except Exception as failure:  # noqa: BLE001 - whatever it is, the consumer must hear of it
            done = replace(done, status="failed", reason=None, error=self._explain(failure))
        self._publish(done)

    async def _generate(self) -> ResponseDone:
        """Run the request to its end, whichever it is."""
        self._submitted_at = time.perf_counter()
        if self._cancelled:
            return self._done("incomplete", "interrupted", None)
        stream = self._engine.generate(self._request)
        usage: Usage | None = None
        finish: FinishReason | None = None
        try:
            async with contextlib.aclosing(stream):
                async for event in stream:
                    if event.token is not None:
                        self._take(event.token, event.finish is FinishReason.STOP)
                    if event.finish is not None:
                        usage, finish = event.usage, event.finish
        finally:
            self._show(self._decode.finish())
        assert finish is not None, "the engine's last event says how the request ended"
        status, reason = _OUTCOMES[finish]
        done = self._done(status, reason, usage)
        return replace(done, miss=await self._find_miss(usage))

    async def _find_miss(self, usage: Usage | None) -> MissReport | None:
        if usage is None or usage.output_tokens == 0:
            return None
        try:
            return await self._explain_miss(usage)
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

    def _take(self, token: int, is_stop: bool) -> None:
        self._last_at = time.perf_counter()
        self._first_at = self._first_at or self._last_at
        self._output_ids.append(token)
        if is_stop:
            self._stop_tokens = 1
        else:
            self._show(self._decode.push(token))

    def _show(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._publish(OutputTextDelta(self.id, text))

    def _publish(self, event: ResponseEvent) -> None:
        self._log.append(event)
        self._news.set()

    async def _keep_partials(self) -> None:
        """Runs until it is cancelled; a save that fails (a full disk) is tried again in a while."""
        while True:
            await asyncio.sleep(PARTIAL_INTERVAL_S)
            try:
                await self._sink.save_partial(self.id, self.answer)
            except RadixChatError:
                pass  # if it lasts, the final write tells
            except Exception:
                _LOGGER.exception("response %s: a part of the answer was not saved", self.id)

    def _done(
        self, status: str, reason: str | None, usage: Usage | None, error: ErrorInfo | None = None
    ) -> ResponseDone:
        input_tokens, output_tokens = len(self._prompt_ids), len(self._output_ids)
        usage = usage or Usage(input_tokens, 0, 0, output_tokens)
        return ResponseDone(
            conversation=self._conversation,
            response=self.id,
            status=status,
            reason=reason,
            output_text=self.answer.text,
            usage=ResponseUsage(
                usage.input_tokens,
                usage.cached_tokens,
                usage.cache_write_tokens,
                usage.output_tokens,
            ),
            timings=self._timings(),
            input_ids=self._prompt_ids,
            output_ids=tuple(self._output_ids),
            seed=self._request.sampling.seed,
            error=error,
        )

    def _timings(self) -> ResponseTimings:
        if not self._first_at:
            return ResponseTimings(None, None, None)

        def milliseconds(start: float, end: float) -> float:
            return round((end - start) * 1000, 3)

        return ResponseTimings(
            ttft_ms=milliseconds(self._accepted_at, self._first_at),
            prompt_ms=milliseconds(self._submitted_at, self._first_at),
            predicted_ms=milliseconds(self._first_at, self._last_at),
        )
