"""`Completions`: answers to what a client sends as a whole, for one principal. No socket.

Owns a run from what is asked to its parts: the prompts, the engine's requests, the calls in the
text, and what is remembered of the answer for the next prompt. Nothing is stored. Leaving a run's
iteration cancels it at the next step.

    ask ──► prompt (message index, template) ──► n requests ──► samples ──► parts ──► ends
                        ▲                                                               │
                        └────────────────────── remember ───────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from radixchat.engine.errors import InvalidRequest
from radixchat.engine.logprobs import TokenLogprob
from radixchat.engine.prompt import ChatMessage
from radixchat.engine.request import FinishReason, Request, fan_out
from radixchat.server.chat_ask import ChatAsk, TextAsk
from radixchat.server.chat_prompt import ChatPrompt, ChatPrompts
from radixchat.server.message_index import MessageIndex
from radixchat.server.output_logprob import OutputLogprob
from radixchat.server.response_options import ResponseOptions
from radixchat.server.sample import SampleDelta, SampleEnd, Samples
from radixchat.server.token_texts import TokenTexts
from radixchat.server.tool import ToolUse
from radixchat.server.tool_prompt import CALL_BEGIN
from radixchat.server.tool_text import Part, TextPart, ToolText

NEVER = -100.0  # a bias after which no token is likely

if TYPE_CHECKING:
    from radixchat.server.host import ChatHost


@dataclass(frozen=True, slots=True)
class ChoicePart:
    """More of choice number `index`: text and calls, and the tokens that are now wholly shown."""

    index: int
    parts: tuple[Part, ...]
    logprobs: tuple[OutputLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ChoiceEnd:
    """The end of a choice, and all of it; sample.index is the choice's number.

    finish: "stop", "length" or "tool_calls". logprobs: None where they were not asked for.
    """

    message: ChatMessage
    finish: str
    sample: SampleEnd
    logprobs: tuple[OutputLogprob, ...] | None
    prompt_logprobs: tuple[OutputLogprob, ...] | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What was asked, ready to be computed.

    events: once; leaving the iteration cancels. choices_per_prompt: so many choices belong to the
    first prompt, as many to the next. num_known: tokens of the prompts that were not encoded.
    """

    id: str
    created: int
    samples: Samples
    events: AsyncGenerator[ChoicePart | ChoiceEnd]
    choices_per_prompt: int
    num_known: int = 0


class Completions:
    """Stateless answers of one principal."""

    def __init__(self, host: ChatHost, principal: str, index: MessageIndex) -> None:
        self._host = host
        self._principal = principal
        self._namespace = host.namespace_of(principal)
        self._tokenizer = host.tokenizer
        self._texts = TokenTexts(host.tokenizer)
        self.prompts = ChatPrompts(host.tokenizer, host.prompts.template, index, principal)

    async def chat(self, ask: ChatAsk) -> Run:
        """A run that answers the chat; nothing is computed yet.

        Raises InvalidRequest (PromptTooLong) and ServerDraining; its events raise as
        EngineThread.generate does.
        """
        accepted_at = time.monotonic()
        self._host.require_accepting()
        self._require_short(message.content for message in ask.messages)
        prompt = await self.prompts.prompt(ask.messages, ask.use)
        options = ask.options
        if ask.use.tools and not ask.use.callable:
            options = self._without_calls(options)
        request = await self._request(options, prompt.ids, prompt.conversation)
        requests = self._fan_out(request, ask.n)
        samples = Samples(self._host.engine, self._tokenizer, requests, accepted_at)
        events = self._chat_events(samples, requests, prompt, ask)
        return _run("chatcmpl", samples, events, ask.n, prompt.num_known)

    async def text(self, ask: TextAsk) -> Run:
        """A run that goes on with each prompt; otherwise as chat."""
        accepted_at = time.monotonic()
        self._host.require_accepting()
        requests: list[Request] = []
        for prompt in ask.prompts:
            ids = await self._encoded(prompt) if isinstance(prompt, str) else prompt
            request = await self._request(ask.options, self._checked(ids), None)
            if ask.prompt_logprobs is not None:
                request.sampling = replace(request.sampling, prompt_logprobs=ask.prompt_logprobs)
            requests += self._fan_out(request, ask.n)
        samples = Samples(self._host.engine, self._tokenizer, requests, accepted_at)
        return _run("cmpl", samples, self._text_events(samples, requests), ask.n)

    def _fan_out(self, request: Request, n: int) -> list[Request]:
        return fan_out(request, [next(self._host.request_ids) for _ in range(n)])

    def _require_short(self, texts: Iterable[str]) -> None:
        """Refuse what is far too long before it is encoded, which takes seconds for megabytes."""
        least = sum(map(self._tokenizer.least_tokens, texts))
        self._host.plan.validate_prompt(least, at_least=True)

    async def _encoded(self, text: str) -> Sequence[int]:
        self._require_short([text])
        return await asyncio.to_thread(self._tokenizer.encode, text)

    def _checked(self, ids: Sequence[int]) -> Sequence[int]:
        """Token ids that the model has, one at least. Raises InvalidRequest."""
        if not ids:
            raise InvalidRequest("the prompt is empty; send at least one token")
        size = self._tokenizer.vocab_size
        wrong = next((token for token in ids if not 0 <= token < size), None)
        if wrong is not None:
            raise InvalidRequest(f"the prompt has token {wrong}; allowed: 0 to {size - 1}")
        return ids

    def _without_calls(self, options: ResponseOptions) -> ResponseOptions:
        """The mark of a call is not written: neither in letters nor where it is one token."""
        biases = dict(options.logit_bias) | dict.fromkeys(self._call_marks, NEVER)
        words = (*options.bad_words, CALL_BEGIN)
        return replace(options, logit_bias=tuple(biases.items()), bad_words=words)

    @cached_property
    def _call_marks(self) -> tuple[int, ...]:
        mark = CALL_BEGIN.encode()
        return tuple(id_ for id_, text in enumerate(self._tokenizer.token_bytes) if mark in text)

    async def _request(
        self, options: ResponseOptions, prompt_ids: Sequence[int], conversation: str | None
    ) -> Request:
        self._host.plan.validate_prompt(len(prompt_ids))
        terms = await self._host.options.read(options)
        return terms.request(
            -1,  # `fan_out` gives the ids
            prompt_ids,
            namespace=self._namespace,
            conversation=conversation,
            branches=(),
        )

    async def _chat_events(
        self, samples: Samples, requests: Sequence[Request], prompt: ChatPrompt, ask: ChatAsk
    ) -> AsyncGenerator[ChoicePart | ChoiceEnd]:
        texts = [_tool_text(ask.use) for _ in requests]
        async with contextlib.aclosing(samples.events()) as events:
            async for event in events:
                text = texts[event.index]
                if isinstance(event, SampleDelta):
                    parts, shown = text.push(event.text), self._named(event.logprobs)
                    if parts or shown:
                        yield ChoicePart(event.index, tuple(parts), shown)
                    continue
                if last := text.finish():
                    yield ChoicePart(event.index, tuple(last))
                message = ChatMessage("assistant", text.content, tuple(text.calls))
                if not text.dropped:
                    self.prompts.remember(prompt, message, event.answer_ids)
                yield self._end(message, event, requests[event.index])

    async def _text_events(
        self, samples: Samples, requests: Sequence[Request]
    ) -> AsyncGenerator[ChoicePart | ChoiceEnd]:
        async with contextlib.aclosing(samples.events()) as events:
            async for event in events:
                if isinstance(event, SampleEnd):
                    message = ChatMessage("assistant", event.text)
                    yield self._end(message, event, requests[event.index])
                    continue
                parts = (TextPart(event.text),) if event.text else ()
                yield ChoicePart(event.index, parts, self._named(event.logprobs))

    def _end(self, message: ChatMessage, sample: SampleEnd, request: Request) -> ChoiceEnd:
        finish = "stop" if sample.finish is FinishReason.STOP else "length"
        prompt = sample.prompt_logprobs
        return ChoiceEnd(
            message=message,
            finish="tool_calls" if message.tool_calls and finish == "stop" else finish,
            sample=sample,
            logprobs=None if request.sampling.logprobs is None else self._named(sample.logprobs),
            prompt_logprobs=None if prompt is None else self._named(prompt),
        )

    def _named(self, logprobs: Sequence[TokenLogprob]) -> tuple[OutputLogprob, ...]:
        return tuple(map(self._texts.output_logprob, logprobs))


def _run(
    kind: str,
    samples: Samples,
    events: AsyncGenerator[ChoicePart | ChoiceEnd],
    choices_per_prompt: int,
    num_known: int = 0,
) -> Run:
    return Run(
        id=f"{kind}-{secrets.token_hex(12)}",
        created=int(time.time()),
        samples=samples,
        events=events,
        choices_per_prompt=choices_per_prompt,
        num_known=num_known,
    )


def _tool_text(use: ToolUse) -> ToolText:
    return ToolText({tool.name for tool in use.callable}, takes_one=use.takes_one)
