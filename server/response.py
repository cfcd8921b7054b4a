"""One running response: the engine's events become a log for clients, and a stored answer.

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
from radixchat.engine.request import FinishReason, Request, TokenEvent, Usage
from radixchat.engine.thread import EngineThread
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.answer_ids import answer_ids
from radixchat.server.message import Answer
from radixchat.server.protocol import (
    ErrorInfo,
    MissReport,
    OutputLogprob,
    OutputTextDelta,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseTimings,
    ResponseUsage,
    describe_error,
)
from radixchat.server.token_texts import TokenTexts

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
    FinishReason.DEADLINE: ("incomplete", "deadline"),
    FinishReason.CANCELLED: ("incomplete", "interrupted"),
}


class RunningResponse:
    """A response from acceptance to its terminal event; `task` is done when that is published."""

    def __init__(
        self,
        *,
        created: ResponseCreated,
        request: Request,
        accepted_at: float,
        engine: EngineThread,
        tokenizer: Tokenizer,
        n_ctx: int,
        sink: ResponseSink,
        explain: Callable[[Usage], Awaitable[MissReport | None]],
    ) -> None:
        """request: with its `text`. n_ctx: as many tokens the conversation can have.

        explain: tells why the cache had as little of the prompt as it had.
        """
        assert request.text is not None, "an answer is text"
        self.id = created.response
        self._created = created
        self._request = request
        self._prompt_ids = tuple(request.tokens)
        self._accepted_at = accepted_at
        self._engine = engine
        self._n_ctx = n_ctx
        self._sink = sink
        self._explain_miss = explain
        self._log: list[ResponseEvent] = [created]
        self._news = asyncio.Event()
        self._text: list[str] = []
        self._tokenizer = tokenizer
        self._sampled: list[int] = []
        self._num_first = 0  # tokens of the first step: with a draft that was right, several
        self._kept = (0, 0)  # tokens and characters of the text that are wholly shown
        self._usage: Usage | None = None
        self._stop: str | None = None
        self._token_texts = TokenTexts(tokenizer)
        self._logprobs: list[OutputLogprob] = []
        self._cancelled = False
        self._submitted_at = self._first_at = self._last_at = 0.0
        self.task = asyncio.create_task(self._produce(), name=self.id)

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
        """What was generated and shown so far."""
        text = "".join(self._text)
        count, length = self._kept
        return Answer(text, answer_ids(self._tokenizer, self._sampled[:count], text, length))

    async def _produce(self) -> None:
        """Generate, store, tell: whatever fails on the way, there is one terminal event."""
        keeper = asyncio.create_task(self._keep_partials())
        try:
            done = await self._generate()
        except Exception as failure:  # noqa: BLE001 - a bug ends this response, and no other
            done = self._done("failed", None, self._explain(failure))
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
        self._submitted_at = time.monotonic()
        if self._cancelled:
            return self._done("incomplete", "interrupted")
        stream = self._engine.generate(self._request)
        event: TokenEvent | None = None
        async with contextlib.aclosing(stream):
            async for event in stream:
                self._take(event)
        assert event is not None, "the engine's last event says how the request ended"
        assert event.finish is not None
        status, reason = _OUTCOMES[event.finish]
        done = self._done(status, reason)
        return replace(done, miss=await self._find_miss(event.usage))

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

    def _take(self, event: TokenEvent) -> None:
        if event.token is not None:
            self._first_at, self._last_at = self._first_at or event.at, event.at
            self._num_first += event.at == self._first_at
            self._sampled.append(event.token)
        if event.logprob is not None:
            self._logprobs.append(self._token_texts.output_logprob(event.logprob))
        if event.finish is not None:
            self._stop, self._usage = event.stop, event.usage
        self._kept = event.num_kept, event.num_kept_characters
        if event.text:
            self._text.append(event.text)
            self._publish(OutputTextDelta(self.id, event.text))

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
        self, status: str, reason: str | None, error: ErrorInfo | None = None
    ) -> ResponseDone:
        answer, input_tokens = self.answer, len(self._prompt_ids)
        usage = self._usage or Usage(input_tokens, 0, 0, len(self._sampled))
        asked_logprobs = self._request.sampling.logprobs is not None
        return ResponseDone(
            conversation=self._created.conversation,
            response=self.id,
            status=status,
            reason=reason,
            output_text=answer.text,
            usage=ResponseUsage(
                usage.input_tokens,
                usage.cached_tokens,
                usage.cache_write_tokens,
                usage.output_tokens,
                usage.draft_tokens,
                usage.accepted_tokens,
                self._kept[0],
            ),
            timings=self._timings(usage),
            input_ids=self._prompt_ids,
            output_ids=tuple(self._sampled),
            seed=self._request.sampling.seed,
            error=error,
            stop=self._stop,
            logprobs=tuple(self._logprobs) if asked_logprobs else None,
            n_ctx=self._n_ctx,
            tokens_left=max(0, self._n_ctx - input_tokens - len(answer.token_ids)),
            left_out=self._created.left_out,
            left_out_tokens=self._created.left_out_tokens,
        )

    def _timings(self, usage: Usage) -> ResponseTimings:
        if not self._first_at:
            return ResponseTimings(None, None, None)

        def milliseconds(start: float, end: float) -> float:
            return round((end - start) * 1000, 3)

        return ResponseTimings(
            ttft_ms=milliseconds(self._accepted_at, self._first_at),
            prompt_ms=milliseconds(self._submitted_at, self._first_at),
            predicted_ms=milliseconds(self._first_at, self._last_at),
            queue_ms=milliseconds(0, usage.queue_seconds),
            first_tokens=self._num_first,
        )
