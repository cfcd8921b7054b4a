"""The OpenAPI 3.1 document of a server: made from its routes, `OPERATIONS` and the wire values.

Owns the shape of the document. A route's summary is its endpoint's docstring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from starlette.routing import BaseRoute, Route

from radixchat.server.operations import OPERATIONS, Operation
from radixchat.server.wire_error import ErrorResponse
from radixchat.server.wire_schema import WHERE, wire_schemas

Json = dict[str, Any]
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_ERRORS = {
    "400": "The request is wrong: the error says where.",
    "401": "No key, or one that is not known.",
    "404": "There is no such thing, for this key.",
    "409": "Something else is going on with it, or it has moved on; see `retry_after_ms`.",
    "429": "A share is used up; see `retry_after_ms`.",
    "500": "The server's fault.",
    "503": "The server is loading, draining or full; see `retry_after_ms`.",
}


def openapi_document(routes: Sequence[BaseRoute], version: str) -> Json:
    """The document; version: of the program.

    Raises KeyError of a route that `OPERATIONS` does not have.
    """
    operations = list(operations_of(routes))
    paths: Json = {}
    for method, path, route in operations:
        described = _operation(OPERATIONS[method, path], route, path)
        paths.setdefault(path, {})[method.lower()] = described
    schemas = wire_schemas(
        received=_kinds(kind for key in operations for kind in (OPERATIONS[key[:2]].body,)),
        sent=[
            ErrorResponse,
            *_kinds(
                kind
                for key in operations
                for kind in (OPERATIONS[key[:2]].answer, *OPERATIONS[key[:2]].events)
            ),
        ],
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "radixchat",
            "version": version,
            "description": "A chat engine that never pays twice for history. The WebSocket at "
            "/v1/responses is described in /asyncapi.json.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def operations_of(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str, Route]]:
    """Method and path, as OpenAPI writes it, of every route over HTTP."""
    for route in routes:
        if isinstance(route, Route):
            path = _PARAMETER.sub(r"{\1}", route.path)
            for method in sorted((route.methods or set()) - {"HEAD"}):
                yield method, path, route


def _kinds(kinds: Iterable[type[Any] | None]) -> list[type[Any]]:
    return [kind for kind in kinds if kind is not None]


def _operation(operation: Operation, route: Route, path: str) -> Json:
    summary, _, rest = (inspect.getdoc(route.endpoint) or "").partition("\n\n")
    described: Json = {
        "operationId": route.endpoint.__name__,
        "summary": summary.replace("\n", " "),
        "parameters": [*_path_parameters(path), *_query_parameters(operation)],
        "responses": _responses(operation),
    }
    if rest:
        described["description"] = rest
    if operation.body is not None:
        described["requestBody"] = {
            "required": operation.needs_body,
            "content": {"application/json": {"schema": reference(operation.body)}},
        }
    if operation.is_public:
        described["security"] = []
    return described


def _path_parameters(path: str) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(path)
    ]


def _query_parameters(operation: Operation) -> list[Json]:
    """The fields of the query's class, each as a parameter."""
    if operation.query is None:
        return []
    schema = wire_schemas(received=[operation.query], sent=[])[operation.query.__name__]
    return [
        {"name": name, "in": "query", "required": name in schema["required"], "schema": field}
        for name, field in schema["properties"].items()
    ]


def _responses(operation: Operation) -> Json:
    content: Json = {media: {"schema": {"type": "string"}} for media in operation.text}
    content |= {"application/json": {}} if "application/json" in operation.text else {}
    if operation.answer is not None:
        content["application/json"] = {"schema": reference(operation.answer)}
    if operation.events:
        events = [reference(event) for event in operation.events]
        content["text/event-stream"] = {"schema": {"type": "string"}, "x-events": events}
    done = {"description": "Done.", "content": content}
    refused = {"application/json": {"schema": reference(ErrorResponse)}}
    answers: Json = {str(operation.status): done}
    if not operation.is_public:
        answers |= {
            status: {"description": why, "content": refused} for status, why in _ERRORS.items()
        }
    answers |= {
        str(status): {"description": "Not now.", "content": content} for status in operation.also
    }
    answers["default"] = {"description": "Refused.", "content": refused}
    return answers


def reference(kind: type[Any]) -> Json:
    """Where a wire value's schema is in the document."""
    return {"$ref": WHERE.format(model=kind.__name__)}
