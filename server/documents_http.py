"""GET /openapi.json and /asyncapi.json: what this server speaks, made from what it checks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from radixchat.server.asyncapi import asyncapi_document
from radixchat.server.openapi import openapi_document


async def show_openapi(request: Request) -> Response:
    """This document."""
    routes = request.app.routes
    return await _document(request, "openapi", lambda: openapi_document(routes, _version()))


async def show_asyncapi(request: Request) -> Response:
    """The messages of the WebSocket."""
    return await _document(request, "asyncapi", lambda: asyncapi_document(_version()))


async def _document(request: Request, name: str, make: Callable[[], dict[str, Any]]) -> Response:
    """Made once an app, beside the loop: it takes most of a second."""
    state = request.app.state
    if not hasattr(state, name):
        setattr(state, name, json.dumps(await asyncio.to_thread(make), indent=1) + "\n")
    return Response(getattr(state, name), media_type="application/json")


def _version() -> str:
    return version("radixchat")


ROUTES = (
    Route("/openapi.json", show_openapi, methods=["GET"]),
    Route("/asyncapi.json", show_asyncapi, methods=["GET"]),
)
