"""The AsyncAPI 3 document of the WebSocket: made from the wire values that validate its messages.

Owns the shape of the document; what the messages are, `wire_client_events.py` and
`wire_server_events.py` say.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, get_args

from radixchat.server.wire_client_events import ClientEvent
from radixchat.server.wire_schema import WHERE, wire_schemas
from radixchat.server.wire_server_events import ServerEvent

Json = dict[str, Any]
PATH = "/v1/responses"
CLIENT: tuple[type[Any], ...] = get_args(ClientEvent)
SERVER: tuple[type[Any], ...] = get_args(ServerEvent)
_DESCRIPTION = """\
OpenAI's Responses API in its WebSocket mode. Every frame is a text with one JSON object, whose
`type` says what it is. A client that connects with the subprotocol `radixchat.v1`, or sends
`client.hello`, gets the server's own events beside OpenAI's, and may send its own; any other client
sees OpenAI's only. Unknown types are to be ignored. Most errors are recoverable: the socket stays
open, and what comes next is served."""


def asyncapi_document(version: str) -> Json:
    """The document; version: of the program."""
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "radixchat", "version": version, "description": _DESCRIPTION},
        "defaultContentType": "application/json",
        "channels": {
            "responses": {
                "address": PATH,
                "messages": {
                    _key(kind): {"$ref": f"#/components/messages/{_key(kind)}"}
                    for kind in (*CLIENT, *SERVER)
                },
                "bindings": {"ws": {"method": "GET"}},
            }
        },
        "operations": {
            "receive": _operation("receive", CLIENT, "What a client sends."),
            "send": _operation("send", SERVER, "What the server sends."),
        },
        "components": {
            "messages": {_key(kind): _message(kind) for kind in (*CLIENT, *SERVER)},
            "schemas": wire_schemas(received=CLIENT, sent=SERVER),
        },
    }


def _key(kind: type[Any]) -> str:
    """A message's key: its class, because two of both sides have the same `type`."""
    return kind.__name__


def _operation(action: str, kinds: Iterable[type[Any]], summary: str) -> Json:
    channel = "#/channels/responses"
    return {
        "action": action,
        "channel": {"$ref": channel},
        "summary": summary,
        "messages": [{"$ref": f"{channel}/messages/{_key(kind)}"} for kind in kinds],
    }


def _message(kind: type[Any]) -> Json:
    summary, _, rest = (inspect.getdoc(kind) or "").partition("\n\n")
    message: Json = {
        "name": kind.__dataclass_fields__["type"].default,
        "title": kind.__name__,
        "summary": summary.replace("\n", " "),
        "payload": {"$ref": WHERE.format(model=kind.__name__)},
    }
    if rest:
        message["description"] = rest
    return message
