"""The one app: every route and socket, and what stands before them.

    RequestWatch → Doorway (Host, Origin) → CORS for allowed pages → Gate (key, share, draining)
      → LastWord → BoundedBody → routes

Owns the assembly and its order. A module of routes has a ROUTES tuple of starlette's Route and
WebSocketRoute; its endpoints find everything by `edge.py`, and raise ApiError or RadixChatError for
what they refuse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, WebSocketRoute

from radixchat.server import (
    admin_http,
    completions_http,
    conversations_http,
    documents_http,
    health,
    responses_http,
    tokenize_http,
    web_page,
    websocket,
)
from radixchat.server.body import BoundedBody
from radixchat.server.edge import Edge
from radixchat.server.error_response import HANDLERS
from radixchat.server.gate import Gate
from radixchat.server.keys import authenticator
from radixchat.server.last_word import LastWord
from radixchat.server.origin import Doorway
from radixchat.server.request_watch import RequestWatch
from radixchat.server.serve_settings import ServeSettings

if TYPE_CHECKING:
    from radixchat.server.host import ChatHost

_HEADERS_FOR_PAGES = ("retry-after", "retry-after-ms")


def create_app(host: ChatHost, settings: ServeSettings) -> Starlette:
    """The app over a host that is open; whoever opened it closes it."""
    edge = Edge(settings)
    edge.open(host, authenticator(host, settings))
    return app_of(edge)


def app_of(edge: Edge) -> Starlette:
    """The app of an edge; until that is open it answers probes, and 503 to everything else."""
    routes = all_routes()
    sockets = [route.path for route in routes if isinstance(route, WebSocketRoute)]
    settings, metrics = edge.settings, edge.metrics
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(RequestWatch, routes=routes, metrics=metrics, telemetry=edge.telemetry),
            Middleware(Doorway, settings=settings, metrics=metrics, socket_paths=sockets),
            Middleware(
                CORSMiddleware,
                allow_origins=settings.allow_origins,
                allow_methods=["*"],
                allow_headers=["*"],
                expose_headers=_HEADERS_FOR_PAGES,
                allow_private_network=True,
            ),
            Middleware(Gate, edge=edge),
            Middleware(LastWord, departure=edge.departure, metrics=metrics),
            Middleware(BoundedBody, limits=settings.limits, metrics=metrics),
        ],
        exception_handlers=HANDLERS,
    )
    app.state.edge = edge
    return app


def all_routes() -> list[BaseRoute]:
    """Every route; the first that matches is taken."""
    return [
        *health.ROUTES,
        *websocket.ROUTES,
        *responses_http.ROUTES,
        *completions_http.ROUTES,
        *tokenize_http.ROUTES,
        *conversations_http.ROUTES,
        *admin_http.ROUTES,
        *documents_http.ROUTES,
        *web_page.web_routes(),
    ]
