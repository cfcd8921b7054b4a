"""What probes and clients ask first: alive? ready? which version, which models?

Knows no conversation. Health and readiness are two questions: a process that is loading or
draining is healthy and not ready; one whose engine is dead is neither, and is to be restarted.
"""

from __future__ import annotations

from importlib.metadata import version

from starlette.requests import Request
from starlette.routing import Route

from radixchat.server.api_error import model_not_found
from radixchat.server.edge import Edge, edge_of
from radixchat.server.json_line import JsonLine
from radixchat.server.wire_service import Health, ModelList, ModelObject, Status, Version
from radixchat.server.wire_value import wire_dict

PROTOCOL = 1


def state(edge: Edge) -> Status:
    """ "loading", "ready", "draining" or "failed"."""
    if edge.is_open and edge.host.failure is not None:
        return "failed"
    if edge.departure.draining.is_set():
        return "draining"
    return "ready" if edge.is_open else "loading"


async def healthz(request: Request) -> JsonLine:
    """200 while the process can serve or will be able to; 503 once its engine is dead."""
    now = state(edge_of(request))
    return JsonLine(wire_dict(Health(status=now)), 503 if now == "failed" else 200)


async def readyz(request: Request) -> JsonLine:
    """200 while new requests are served."""
    now = state(edge_of(request))
    return JsonLine(wire_dict(Health(status=now)), 200 if now == "ready" else 503)


async def show_version(request: Request) -> JsonLine:
    """The version of the program and of the protocol."""
    return JsonLine(wire_dict(Version(version=version("radixchat"), protocol=PROTOCOL)))


async def list_models(request: Request) -> JsonLine:
    """The one model that is served."""
    return JsonLine(wire_dict(ModelList(data=(_model(edge_of(request)),))))


async def show_model(request: Request) -> JsonLine:
    """The model of that name; 404 where it is not the one that is served."""
    edge = edge_of(request)
    asked = request.path_params["model"]
    if asked != edge.host.model_name:
        raise model_not_found(asked, edge.host.model_name)
    return JsonLine(wire_dict(_model(edge)))


def _model(edge: Edge) -> ModelObject:
    host = edge.host
    return ModelObject(id=host.model_name, created=int(edge.began), context_length=host.n_ctx)


ROUTES = (
    Route("/healthz", healthz),
    Route("/readyz", readyz),
    Route("/version", show_version),
    Route("/v1/models", list_models),
    Route("/v1/models/{model:path}", show_model),
)
