"""For operators: `/metrics`, `/admin/cache`, `/admin/drain`. The gate decides who may ask.

What somebody sees of the cache is their own part of it; figures of the whole name nobody.
"""

from __future__ import annotations

from importlib.metadata import version

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from radixchat.server.api_error import ApiError
from radixchat.server.decode import decode_value
from radixchat.server.edge import edge_of, principal_of, service_of
from radixchat.server.exposition import CONTENT_TYPE, Exposition
from radixchat.server.json_line import JsonLine
from radixchat.server.wire_query import CacheQuery, FlushQuery
from radixchat.server.wire_service import CacheState, Draining, Flushed
from radixchat.server.wire_session import CacheTreeObject
from radixchat.server.wire_value import wire_dict


async def show_metrics(request: Request) -> Response:
    """Everything that is counted, in Prometheus' text format."""
    edge, state = edge_of(request), request.app.state
    if not hasattr(state, "exposition"):  # one for all scrapes: it keeps the last known figures
        state.exposition = Exposition(edge.host, edge.metrics, version("radixchat"))
    text = await state.exposition.text()
    return Response(text, headers={"content-type": CONTENT_TYPE})


async def show_cache(request: Request) -> JsonLine:
    """How the engine was set up, for an operator its counters; the caller's part of the tree."""
    query = decode_value(CacheQuery, dict(request.query_params))
    service = service_of(request)
    tree = await service.cache_tree(query.conversation)
    stats = await service.stats(everybody=principal_of(request).is_operator)
    state = CacheState(stats=stats, tree=CacheTreeObject.of(tree))
    return JsonLine(wire_dict(state))


async def flush_cache(request: Request) -> JsonLine:
    """Forget what is cached for the caller, or (`scope=all`) for everybody; what runs keeps its."""
    query = decode_value(FlushQuery, dict(request.query_params))
    service, principal = service_of(request), principal_of(request)
    if query.scope == "all" and not principal.is_operator:
        raise ApiError(403, "operator_required", "scope is 'all': that is for an operator's key")
    namespace = None if query.scope == "all" else service.namespace
    pages = await service.host.engine.ask(lambda engine: engine.flush(namespace))
    return JsonLine(wire_dict(Flushed(tokens=pages * service.host.plan.page_size)))


async def begin_drain(request: Request) -> JsonLine:
    """Take nothing new, let what runs finish, and leave, as on SIGTERM. A second time: nothing."""
    edge = edge_of(request)
    edge.departure.requested.set()
    running = max(edge.host.num_running, edge.num_answers)
    return JsonLine(wire_dict(Draining(draining=True, running=running)), 202)


ROUTES = (
    Route("/metrics", show_metrics, methods=["GET"]),
    Route("/admin/cache", show_cache, methods=["GET"]),
    Route("/admin/cache/flush", flush_cache, methods=["POST"]),
    Route("/admin/drain", begin_drain, methods=["POST"]),
)
