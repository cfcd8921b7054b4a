"""`GET /v1/responses` as a WebSocket: OpenAI's WebSocket mode, and ours for those who say hello.

Owns the handshake after the checks of the HTTP request: the subprotocol, the key in the first
message where it comes so, and the close frame. What is said between is `socket_connection.py`'s.
"""

from __future__ import annotations

import asyncio
import contextlib

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from radixchat.engine.errors import RateLimited
from radixchat.server.api_error import ApiError, api_error_of
from radixchat.server.auth import Principal, accepted_subprotocol, key_of
from radixchat.server.decode import decode_client_event
from radixchat.server.edge import Edge, edge_of, has_principal, principal_of
from radixchat.server.gate import admit_as
from radixchat.server.outbox import TRY_AGAIN_LATER, UNAUTHORIZED, Closing
from radixchat.server.rate import NOBODY_YET
from radixchat.server.socket_connection import SocketConnection
from radixchat.server.wire_client_events import Auth
from radixchat.server.wire_server_events import AuthInvalid, AuthOk, AuthRequired
from radixchat.server.wire_value import wire_dict, wire_json

TIMEOUT = 3008  # IANA's registry of close codes: as HTTP's 408


async def responses_socket(websocket: WebSocket) -> None:
    """Serve one client to its end."""
    edge = edge_of(websocket)
    subprotocols = websocket.scope["subprotocols"]
    subprotocol = accepted_subprotocol(subprotocols)
    key = key_of(websocket.headers.get("authorization"), subprotocols)
    await websocket.accept(subprotocol)
    with contextlib.ExitStack() as counted:
        if has_principal(websocket):
            principal = principal_of(websocket)
        else:
            try:
                with edge.rates.socket(NOBODY_YET):
                    key, principal = await _authenticate(websocket, edge)
                counted.enter_context(edge.rates.socket(principal.id))
            except _TurnedAway as turned_away:
                await _close(websocket, turned_away.closing)
                return
            except RateLimited as limited:
                await websocket.send_text(wire_json(api_error_of(limited).event()))
                await _close(websocket, Closing(TRY_AGAIN_LATER, "too many connections"))
                return
            admit_as(websocket.scope, principal)
        service = edge.host.service(principal.id)
        extensions = subprotocol is not None
        connection = SocketConnection(websocket, edge, service, key, extensions=extensions)
        try:
            await _close(websocket, await connection.serve())
        finally:
            await connection.leave()


class _TurnedAway(Exception):
    """Whoever came had no valid key."""

    def __init__(self, closing: Closing) -> None:
        self.closing = closing
        super().__init__(closing.reason)


async def _authenticate(websocket: WebSocket, edge: Edge) -> tuple[str, Principal]:
    """Have the key as the first message; it, and whose it is."""
    await websocket.send_text(wire_json(wire_dict(AuthRequired())))
    try:
        async with asyncio.timeout(edge.settings.limits.auth_seconds):
            text = await websocket.receive_text()
    except TimeoutError:
        raise _TurnedAway(Closing(TIMEOUT, "no key came in time")) from None
    except WebSocketDisconnect as gone:
        raise _TurnedAway(Closing(gone.code, by_peer=True)) from None
    except KeyError:  # a binary frame
        raise _TurnedAway(Closing(UNAUTHORIZED, "the first message is auth")) from None
    key, principal = "", None
    event_id, why = None, "the first message has to be auth"
    with contextlib.suppress(ApiError):
        event = decode_client_event(text)
        event_id = event.event_id
        if isinstance(event, Auth):
            key = event.token
            principal = await edge.auth.principal(key)
            why = "this key is not valid"
    if principal is None:
        await websocket.send_text(
            wire_json(wire_dict(AuthInvalid(in_reply_to=event_id, message=why)))
        )
        raise _TurnedAway(Closing(UNAUTHORIZED, why))
    await websocket.send_text(wire_json(wire_dict(AuthOk(in_reply_to=event_id))))
    return key, principal


async def _close(websocket: WebSocket, closing: Closing) -> None:
    if closing.by_peer:
        return
    with contextlib.suppress(OSError, RuntimeError, WebSocketDisconnect):  # it has just gone
        await websocket.close(closing.code, closing.reason)


ROUTES = (WebSocketRoute("/v1/responses", responses_socket),)
