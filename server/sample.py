"""Answers to prompts that nobody stores: `Samples`, the engine's events as texts.

Owns what a sample is made of: deltas of its text with the tokens they show, and one end. Knows no
message, no tool and no socket; what is not read any more is cancelled by closing the iteration.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from radixchat.engine.logprobs import TokenLogprob
from radixchat.engine.request import FinishReason, Request, TokenEvent, Usage
from radixchat.engine.thread import EngineThread
from radixchat.engine.tokenizer import Tokenizer
from radixchat.server.answer_ids import answer_ids
from radixchat.server.response_usage import ResponseTimings


@dataclass(frozen=True, slots=True)
class SampleDelta:
    """More of sample number `index`; logprobs: of the tokens that are now wholly shown."""

    index: int
    text: str
    logprobs: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class SampleEnd:
    """The end of a sample, and all of it.

    answer_ids: tokens whose text is `text`, what a conversation goes on from. output_ids: all that
    was sampled. stop: the stop text that ended it. logprobs: of the tokens that were shown, and
    prompt_logprobs of the prompt's but the first, where they were asked for.
    """

    index: int
    text: str
    finish: FinishReason
    usage: Usage
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    stop: str | None
    logprobs: tuple[TokenLogprob, ...]
    prompt_logprobs: tuple[TokenLogprob, ...] | None
    timings: ResponseTimings


class _Sample:
    """One request's answer so far."""

    def __init__(self, index: int, request: Request) -> None:
        self._index = index
        self._prompt_ids = tuple(request.tokens)
        self._text: list[str] = []
        self._ids: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._num_told = 0
        self._prompt_logprobs: tuple[TokenLogprob, ...] | None = None
        self._first_at: float | None = None
        self._last_at = 0.0
        self._num_first = 0

    def take(self, event: TokenEvent) -> SampleDelta | None:
        """What the event adds; None where that is nothing to be told."""
        if event.token is not None:
            self._ids.append(event.token)
            self._last_at = event.at
            if self._first_at is None:
                self._first_at = event.at
            self._num_first += event.at == self._first_at
        if event.logprob is not None:
            self._logprobs.append(event.logprob)
        if event.prompt_logprobs is not None:
            self._prompt_logprobs = event.prompt_logprobs
        self._text.append(event.text)
        shown = self._logprobs[self._num_told : event.num_kept]
        self._num_told += len(shown)
        if not event.text and not shown:
            return None
        return SampleDelta(self._index, event.text, tuple(shown))

    def end(
        self, event: TokenEvent, tokenizer: Tokenizer, accepted_at: float, submitted_at: float
    ) -> SampleEnd:
        """The whole sample, with its last event."""
        assert event.finish is not None
        assert event.usage is not None
        text = "".join(self._text)
        kept = self._ids[: event.num_kept]
        return SampleEnd(
            index=self._index,
            text=text,
            finish=event.finish,
            usage=event.usage,
            prompt_ids=self._prompt_ids,
            answer_ids=answer_ids(tokenizer, kept, text, event.num_kept_characters),
            output_ids=tuple(self._ids),
            stop=event.stop,
            logprobs=tuple(self._logprobs[: self._num_told]),
            prompt_logprobs=self._prompt_logprobs,
            timings=self._timings(event.usage, accepted_at, submitted_at),
        )

    def _timings(self, usage: Usage, accepted_at: float, submitted_at: float) -> ResponseTimings:
        if self._first_at is None:
            return ResponseTimings(None, None, None)
        return ResponseTimings.between(
            accepted_at,
            submitted_at,
            self._first_at,
            self._last_at,
            queue_seconds=usage.queue_seconds,
            first_tokens=self._num_first,
        )


class Samples:
    """One run of several requests; sample i is of requests[i]. num_tokens: sampled so far."""

    def __init__(
        self,
        engine: EngineThread,
        tokenizer: Tokenizer,
        requests: Sequence[Request],
        accepted_at: float,
    ) -> None:
        """accepted_at: when they were asked for, before anything was encoded."""
        self.num_tokens = 0
        self._engine = engine
        self._tokenizer = tokenizer
        self._requests = requests
        self._accepted_at = accepted_at

    async def events(self) -> AsyncGenerator[SampleDelta | SampleEnd]:
        """What happens, as it happens; once.

        Closing the iteration cancels what runs. Raises as EngineThread.generate does.
        """
        running = {
            request.id: _Sample(index, request) for index, request in enumerate(self._requests)
        }
        submitted_at = time.monotonic()
        async with contextlib.aclosing(self._engine.generate(*self._requests)) as events:
            async for event in events:
                self.num_tokens += event.token is not None
                sample = running[event.request_id]
                delta = sample.take(event)
                if delta is not None:
                    yield delta
                if event.finish is not None and event.error is None:
                    yield sample.end(event, self._tokenizer, self._accepted_at, submitted_at)
