"""POST /v1/chat/completions and /v1/completions: bodies in, answers or streams out.

Owns what HTTP adds to a run: the first refusal is a status and not an event, a client that goes
away cancels, and what was generated is counted. What is answered is `completions.py`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from radixchat.engine.errors import InvalidRequest, RadixChatError
from radixchat.server.api_error import api_error_of, model_not_found
from radixchat.server.chat_answer import AnswerForm, ChatChunks
from radixchat.server.chat_ask import read_chat, read_text
from radixchat.server.completions import ChoiceEnd, ChoicePart, Completions, Run
from radixchat.server.decode import decode_body
from radixchat.server.edge import Edge, edge_of, principal_of
from radixchat.server.json_line import JsonLine
from radixchat.server.message_index import MessageIndex
from radixchat.server.sse import CLIENT_GONE, DONE, EventStream, sse, while_connected
from radixchat.server.text_answer import TextChunks
from radixchat.server.wire_chat_completion import ChatCompletionChunk
from radixchat.server.wire_chat_request import ChatCompletionRequest, CompletionSampling
from radixchat.server.wire_text_completion import CompletionRequest, TextCompletion
from radixchat.server.wire_value import wire_dict

# What the engine refuses, it refuses within a step; an answer's first token may take a minute.
REFUSAL_S = 1.0

Body = TypeVar("Body", bound=CompletionSampling)
Events = AsyncGenerator[ChoicePart | ChoiceEnd]
Chunk = ChatCompletionChunk | TextCompletion


class StatelessAnswers:
    """The `Completions` of each principal of one app, made when needed."""

    def __init__(self, edge: Edge) -> None:
        self._host = edge.host
        self._made: dict[str, Completions] = {}

    def of(self, principal: str) -> Completions:
        """That principal's; the same object each time."""
        if principal not in self._made:
            index = MessageIndex()
            self._made[principal] = Completions(self._host, principal, index)
        return self._made[principal]


def completions_of(request: Request) -> Completions:
    """The stateless answers of whoever asks."""
    state = request.app.state
    if not hasattr(state, "stateless"):
        state.stateless = StatelessAnswers(edge_of(request))
    stateless: StatelessAnswers = state.stateless
    return stateless.of(principal_of(request).id)


@dataclass(frozen=True, slots=True)
class _Answering:
    """One run on its way out."""

    edge: Edge
    principal: str
    run: Run
    chunks: ChatChunks | TextChunks


async def chat_completions(request: Request) -> ASGIApp:
    """Answer a chat."""
    edge, completions = edge_of(request), completions_of(request)
    body = await _body(request, ChatCompletionRequest)
    ask = read_chat(body)
    with _about("messages"):
        run = await completions.chat(ask)
    with_logprobs = ask.options.top_logprobs is not None
    chunks = ChatChunks(run, _form(edge, body), with_logprobs=with_logprobs)
    answering = _Answering(edge, principal_of(request).id, run, chunks)
    return await _answer(request, body, answering)


async def text_completions(request: Request) -> ASGIApp:
    """Go on with prompts."""
    edge, completions = edge_of(request), completions_of(request)
    body = await _body(request, CompletionRequest)
    ask = read_text(body)
    with _about("prompt"):
        run = await completions.text(ask)
    chunks = TextChunks(run, ask, _form(edge, body), edge.host.tokenizer)
    answering = _Answering(edge, principal_of(request).id, run, chunks)
    return await _answer(request, body, answering)


async def _body(request: Request, kind: type[Body]) -> Body:
    edge = edge_of(request)
    body = decode_body(kind, await request.body(), strict=edge.settings.strict)
    require_model(edge, body.model)
    return body


@contextlib.contextmanager
def _about(param: str) -> Iterator[None]:
    """What is wrong, and is no option, is wrong with that field."""
    try:
        yield
    except InvalidRequest as error:
        refusal = api_error_of(error)
        if refusal.param in (None, "input"):
            refusal.param = param
        raise refusal from error


def require_model(edge: Edge, model: str | None) -> None:
    """Raise ApiError for another model than the one that is served; None stands for that."""
    if model not in (None, edge.host.model_name):
        raise model_not_found(str(model), edge.host.model_name)


def _form(edge: Edge, body: CompletionSampling) -> AnswerForm:
    fingerprint = f"fp_{edge.host.prompts.render_hash[:16]}"
    return AnswerForm(edge.host.model_name, fingerprint, with_ids=bool(body.return_token_ids))


async def _answer(request: Request, body: CompletionSampling, answering: _Answering) -> ASGIApp:
    if not body.stream:
        answer = await while_connected(request.receive, _whole(answering))
        return Response(status_code=CLIENT_GONE) if answer is None else answer
    with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    events = await _begun(answering.run.events)
    limits = answering.edge.settings.limits
    source = _stream(answering, events, with_usage=with_usage)
    return EventStream(source, stalled_s=limits.stalled_seconds)


async def _whole(answering: _Answering) -> Response:
    ends: list[ChoiceEnd] = []
    try:
        async with contextlib.aclosing(answering.run.events) as events:
            async for event in events:
                if isinstance(event, ChoiceEnd):
                    ends.append(event)
    finally:
        _count(answering, ends)
    return JsonLine(wire_dict(answering.chunks.whole(ends)))


async def _stream(
    answering: _Answering, events: Events, *, with_usage: bool
) -> AsyncGenerator[bytes]:
    ends: list[ChoiceEnd] = []
    try:
        for chunk in answering.chunks.begin():
            yield sse(wire_dict(chunk))
        async with contextlib.aclosing(events):
            async for event in events:
                if isinstance(event, ChoiceEnd):
                    ends.append(event)
                    chunks: Sequence[Chunk] = answering.chunks.end(event)
                else:
                    chunks = answering.chunks.part(event)
                for chunk in chunks:
                    yield sse(wire_dict(chunk))
        if with_usage:
            yield sse(wire_dict(answering.chunks.usage(ends)))
        yield DONE
    except RadixChatError as error:
        refusal = api_error_of(error)
        answering.edge.metrics.refused(refusal.code)
        yield sse(refusal.body())
    finally:
        _count(answering, ends)


async def _begun(events: Events) -> Events:
    """The events, once the first is there or takes its time; what is refused is raised here."""
    first = asyncio.ensure_future(_next(events))
    try:
        await asyncio.wait({first}, timeout=REFUSAL_S)
        if first.done():
            first.result()
    except BaseException:
        first.cancel()
        await asyncio.wait({first})
        await events.aclose()
        raise
    return _after(first, events)


async def _after(first: asyncio.Future[ChoicePart | ChoiceEnd], events: Events) -> Events:
    try:
        yield await first
        async for event in events:
            yield event
    finally:
        if not first.done():
            first.cancel()
            await asyncio.wait({first})
        await events.aclose()


async def _next(events: Events) -> ChoicePart | ChoiceEnd:
    return await anext(events)


def _count(answering: _Answering, ends: Sequence[ChoiceEnd]) -> None:
    """What was generated counts, whether or not anybody has read it."""
    edge, run = answering.edge, answering.run
    edge.rates.spend(answering.principal, run.samples.num_tokens)
    for end in ends:
        sample, ttft_ms = end.sample, end.sample.timings.ttft_ms
        if ttft_ms is not None and sample.index % run.choices_per_prompt == 0:
            cached, known = sample.usage.cached_tokens, run.num_known
            found = "hit" if cached and cached >= known - 1 else "partial"
            edge.metrics.first_token_came(ttft_ms / 1000, found if cached else "miss")


ROUTES = (
    Route("/v1/chat/completions", chat_completions, methods=["POST"]),
    Route("/v1/completions", text_completions, methods=["POST"]),
)
