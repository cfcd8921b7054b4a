"""`/v1/responses` over HTTP: begin a response, read it, from any place in it, cancel it, erase it.

A request that goes away has not cancelled its response: that goes on for a while, as on a
WebSocket, and is read again by its id. Only one that is not to be stored ends with its request.
Owns how a response becomes an HTTP answer. Knows no store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from radixchat.engine.errors import RadixChatError, ResponseNotFound
from radixchat.server.api_error import invalid_value, previous_response_not_found, unsupported
from radixchat.server.asks import EventKey
from radixchat.server.conversation_items import input_items, page_of
from radixchat.server.decode import decode_body, decode_value
from radixchat.server.edge import edge_of, service_of
from radixchat.server.encode import Encoder
from radixchat.server.json_line import JsonLine
from radixchat.server.response import LiveResponse
from radixchat.server.response_ask import ResponseAsk, response_create_to_ask
from radixchat.server.response_log import Subscription
from radixchat.server.response_object import response_object
from radixchat.server.service import ChatService
from radixchat.server.sse import CLIENT_GONE, EventStream, sse, while_connected
from radixchat.server.stored_response import StoredResponse
from radixchat.server.wire_conversation import ResponseBody, ResponseDeleted
from radixchat.server.wire_query import ListQuery, ResponseQuery
from radixchat.server.wire_value import wire_dict

AnyResponse = LiveResponse | StoredResponse
# A cancelled response ends with the step that runs; that takes a second or two on a slow machine.
_CANCEL_S = 10.0
_MAX_KEY = 256


async def create_response(request: Request) -> ASGIApp:
    """Answer the input: the whole response at its end, or its events as they come.

    An `Idempotency-Key` header: the same key again within 24 hours is the same response.
    """
    edge, service = edge_of(request), service_of(request)
    body = decode_body(ResponseBody, await request.body(), strict=edge.settings.strict)
    asked = response_create_to_ask(body, model=service.model_name)
    if asked.n != 1:
        raise unsupported("x.n", f"x.n is {asked.n}; several answers need a WebSocket")
    arguments = {**asked.arguments, "report": asked.return_progress and bool(body.stream)}
    key = request.headers.get("idempotency-key")
    if key is not None:
        if not 0 < len(key) <= _MAX_KEY:
            message = f"Idempotency-Key has {len(key)} characters; allowed: 1 to {_MAX_KEY}"
            raise invalid_value("Idempotency-Key", message)
        arguments["event"] = EventKey(key)
    is_kept = arguments.get("store", True)
    try:
        response = await service.begin(asked.ask, asked.options, **arguments)
    except ResponseNotFound as error:
        raise previous_response_not_found(error) from error

    async def leave() -> None:
        if not is_kept:
            response.cancel()
            with contextlib.suppress(RadixChatError):  # a server that leaves sweeps it later
                await service.forget(response.created.conversation)

    if body.stream:
        return _stream(request, response, -1, asked=asked, leave=leave)
    try:
        await while_connected(request.receive, _ended(response))
        if response.done is None:
            return Response(status_code=CLIENT_GONE)
        return _shown(service, response, token_ids=asked.return_token_ids)
    finally:
        await leave()


async def retrieve_response(request: Request) -> ASGIApp:
    """A response as it is now, or its events from a place on."""
    service = service_of(request)
    query = decode_value(ResponseQuery, dict(request.query_params))
    response = await _find(request)
    if not query.stream:
        return _shown(service, response)
    resumed = "stored" if isinstance(response, StoredResponse) else "replay"
    if query.continue_ and isinstance(response, StoredResponse) and response.is_cut_short:
        response = await service.continue_response(response.id)
        resumed = "continued"
    edge_of(request).metrics.resumed(resumed)
    return _stream(request, response, query.starting_after)


async def cancel_response(request: Request) -> JsonLine:
    """End it, and show it as it then is; one that has ended stays as it is."""
    service, response = service_of(request), await _find(request)
    await service.cancel(response.id)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CANCEL_S):
            await _ended(response)
    return _shown(service, response)


async def delete_response(request: Request) -> JsonLine:
    """Erase a response; the conversation keeps its messages."""
    id_ = request.path_params["response_id"]
    await service_of(request).delete_response(id_)
    return JsonLine(wire_dict(ResponseDeleted(id=id_)))


async def list_input_items(request: Request) -> JsonLine:
    """The messages that a response answers: those up to its question, the latest first."""
    query = decode_value(ListQuery, dict(request.query_params))
    created = (await _find(request)).created
    tree = await service_of(request).tree(created.conversation)
    return JsonLine(wire_dict(page_of(input_items(tree, created), query)))


def _shown(service: ChatService, response: AnyResponse, *, token_ids: bool = False) -> JsonLine:
    """The response object as of now."""
    text = response.log.text if isinstance(response, LiveResponse) else ""
    shown = response_object(
        response.created,
        response.done,
        model=service.model_name,
        output_text=text,
        token_ids=token_ids,
    )
    return JsonLine(wire_dict(shown))


async def _nothing() -> None:
    """There is nothing to be done at the end."""


def _stream(
    request: Request,
    response: AnyResponse,
    after: int,
    *,
    asked: ResponseAsk | None = None,
    leave: Callable[[], Awaitable[None]] = _nothing,
) -> ASGIApp:
    encoder = Encoder(
        None,
        # Who asks for progress knows of events that OpenAI has not; others are spared them.
        extensions=asked is not None and asked.return_progress,
        model=service_of(request).model_name,
        after=after,
        token_ids=asked is not None and asked.return_token_ids,
    )
    stalled_s = edge_of(request).settings.limits.stalled_seconds
    return _ResponseStream(response.subscribe(after=after), encoder, response, stalled_s, leave)


class _ResponseStream:
    """An ASGI response: the events of a response from a place on, to its end."""

    def __init__(
        self,
        reader: Subscription,
        encoder: Encoder,
        response: AnyResponse,
        stalled_s: float,
        leave: Callable[[], Awaitable[None]],
    ) -> None:
        self._reader = reader
        self._encoder = encoder
        self._created = response.created
        self._stalled_s = stalled_s
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; whatever happens, the reader's place is given up."""
        try:
            await EventStream(self._events(), stalled_s=self._stalled_s)(scope, receive, send)
        finally:
            self._reader.close()
            await self._leave()

    async def _events(self) -> AsyncGenerator[bytes]:
        """What came since the last look, in one piece."""
        # One who begins later is not told of the beginning, but his encoder has to know it.
        self._encoder.events(self._created)
        while not self._reader.ended:
            encoded = [
                event for told in self._reader.take() for event in self._encoder.events(told)
            ]
            if self._reader.ended:  # whoever reads the end finds it done
                await self._leave()
            if encoded:
                yield b"".join(sse(event, name=event["type"]) for event in encoded)
            await self._reader.wait()


async def _ended(response: AnyResponse) -> None:
    """Until a response has ended; it has a reader meanwhile."""
    with contextlib.closing(response.subscribe()) as reader:
        while not reader.ended:
            reader.take()
            await reader.wait()


async def _find(request: Request) -> AnyResponse:
    """The response that the path names. Raises ResponseNotFound."""
    return await service_of(request).response(request.path_params["response_id"])


_ONE = "/v1/responses/{response_id}"
ROUTES = (
    Route("/v1/responses", create_response, methods=["POST"]),
    Route(_ONE, retrieve_response, methods=["GET"]),
    Route(_ONE, delete_response, methods=["DELETE"]),
    Route(f"{_ONE}/cancel", cancel_response, methods=["POST"]),
    Route(f"{_ONE}/input_items", list_input_items, methods=["GET"]),
)
