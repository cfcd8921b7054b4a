"""The OpenAPI and AsyncAPI documents: they leave nothing out, and what is said is as they say."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from radixchat.server.app import all_routes
from radixchat.server.asyncapi import CLIENT, SERVER, asyncapi_document
from radixchat.server.encode import Encoder
from radixchat.server.local import LocalSettings
from radixchat.server.openapi import openapi_document, operations_of
from radixchat.server.operations import OPERATIONS
from radixchat.server.wire_client_events import ClientEvent
from radixchat.server.wire_value import wire_dict
from radixchat.tests.server.sites import Site, at_site
from radixchat.tests.server.sockets import Event, Server, serve_sockets
from radixchat.tests.server.wire_events import MODEL, STATES, every_kind

jsonschema: Any = importlib.import_module("jsonschema")  # it has no types
ASYNCAPI = asyncapi_document("1")
OPENAPI = openapi_document(all_routes(), "1")


def check(document: dict[str, Any], name: str, value: Any) -> None:
    """Raise jsonschema.ValidationError unless a value is what the document says under the name."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def names_by_type(side: tuple[type[Any], ...]) -> dict[str, str]:
    messages = ASYNCAPI["components"]["messages"]
    return {messages[kind.__name__]["name"]: kind.__name__ for kind in side}


def check_events(events: list[Event]) -> None:
    """Each is a message that the document says the server sends."""
    names = names_by_type(SERVER)
    for event in events:
        check(ASYNCAPI, names[event["type"]], event)


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


@pytest.mark.parametrize("document", [ASYNCAPI, OPENAPI], ids=["asyncapi", "openapi"])
def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    """Within the document, which is JSON; every schema is one, and says what it is."""
    json.dumps(document, allow_nan=False)
    for reference in references(document):
        node: Any = document
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]
    for name, schema in document["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["description"], name


def test_every_route_is_an_operation_and_every_operation_a_route() -> None:
    """What is served is described, with a summary and what it answers."""
    routes = [(method, path) for method, path, _ in operations_of(all_routes())]
    assert sorted(routes) == sorted(OPERATIONS)
    for path, methods in OPENAPI["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            assert {"default"} < set(operation["responses"]), (method, path)
    ids = [op["operationId"] for methods in OPENAPI["paths"].values() for op in methods.values()]
    assert len(set(ids)) == len(ids)


def test_both_sides_messages_are_in_the_document() -> None:
    """Every class that is decoded, and every one that is sent, once."""
    messages = ASYNCAPI["components"]["messages"]
    assert len(messages) == len(CLIENT) + len(SERVER)
    assert ASYNCAPI["operations"]["receive"]["messages"] == [
        {"$ref": f"#/channels/responses/messages/{kind.__name__}"} for kind in get_args(ClientEvent)
    ]
    assert all(message["summary"] for message in messages.values())
    for side in (CLIENT, SERVER):
        assert len(names_by_type(side)) == len(side), "two messages of one type"


def test_what_is_encoded_is_as_the_document_says() -> None:
    """A response of every kind, with our states in it."""
    for events in every_kind().values():
        encoder = Encoder("main", True, MODEL, in_reply_to="e1", token_ids=True)
        for event in [events[0], *STATES[:2], *events[1:]]:
            check_events(json.loads(json.dumps(encoder.events(event))))


def test_the_document_can_be_contradicted() -> None:
    """A field that is missing, null where it never is, or of another kind is found."""
    (frame,) = Encoder("main", True, MODEL).events(STATES[0])
    for broken in (
        {**frame, "total": "10"},
        {**frame, "stream_id": None},
        {key: value for key, value in frame.items() if key != "type"},
        {key: value for key, value in frame.items() if key != "cached"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            check(ASYNCAPI, "PrefillProgressEvent", broken)


def test_a_conversation_over_a_socket_is_as_the_document_says(settings: LocalSettings) -> None:
    """Both directions of a session with a turn, a fork, a search, drafts, a resume and refusals."""

    async def body(server: Server) -> None:
        names = names_by_type(CLIENT)
        async with server.client() as client:

            async def ask(type_: str, **fields: Any) -> Event:
                check(ASYNCAPI, names[type_], {"type": type_, "event_id": "e", **fields})
                return await client.ask(type_, **fields)

            made = await ask("session.create", name="demo", instructions="Be terse.")
            session = made["session"]["id"]
            await ask("prefill.draft", session_id=session, revision=1, text="Hel")
            await ask("cache.inspect", session_id=session)
            response = await client.begin(
                "Hello",
                conversation=session,
                max_output_tokens=4,
                stream_id="main",
                x={"return_progress": True},
            )
            await client.end(response)
            await ask("response.resume", response_id=response, starting_after=2)
            await client.end(response)
            other = await ask("response.regenerate", response_id=response, max_output_tokens=2)
            await client.end(other["response"]["id"])
            for type_ in ("get", "tree", "export", "subscribe", "unsubscribe", "fork", "close"):
                await ask(f"session.{type_}", session_id=session)
            await ask("session.update", session_id=session, name="other")
            await ask("session.search", query="Hello")
            await ask("session.resolve", prefix=session[:8])
            await ask("session.undo", session_id=session)
            await ask("session.list")
            await ask("cache.tree", session_id=session)
            await ask("server.stats")
            await ask("ping", t=1)
            await ask("session.delete", session_id=session)
            await ask("session.get", session_id=session)
            await client.ask("nothing.known")
            check_events([client.hello, *client.seen])
            told = {event["type"] for event in client.seen}
            assert {"error", "response.cache", "response.resumed", "prefill.ready"} <= told
            assert len(told) > 30

    serve_sockets(body, settings)


def test_answers_over_http_are_as_the_document_says(settings: LocalSettings) -> None:
    """Of each operation that has a body or a path, served by a real server."""

    async def body(site: Site) -> None:
        document = await site.call("GET", "/openapi.json")
        assert document["openapi"] == "3.1.0"
        assert (await site.call("GET", "/asyncapi.json"))["asyncapi"] == "3.0.0"

        async def call(
            method: str, path: str, given: Any = None, *, of: str | None = None, **query: Any
        ) -> Any:
            operation = OPERATIONS[method, of or path]
            if operation.body is not None and given is not None:
                check(document, operation.body.__name__, given)
            answer = await site.call(method, path, given, params=query)
            assert operation.answer is not None
            check(document, operation.answer.__name__, answer)
            return answer

        for path in ("/healthz", "/readyz", "/version", "/v1/models", "/admin/cache"):
            await call("GET", path)
        chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "logprobs": True}
        await call("POST", "/v1/chat/completions", chat)
        await call("POST", "/v1/completions", {"prompt": "Hi", "max_tokens": 2, "logprobs": 1})
        tokens = (await call("POST", "/tokenize", {"prompt": "Hi"}))["tokens"]
        await call("POST", "/detokenize", {"tokens": tokens})
        one = "/v1/conversations/{conversation_id}"
        made = await call("POST", "/v1/conversations", {"metadata": {"a": "b"}, "name": "n"})
        here = f"/v1/conversations/{made['id']}"
        asked = {"input": "Hi", "conversation": made["id"], "max_output_tokens": 2}
        response = await call("POST", "/v1/responses", asked)
        there = f"/v1/responses/{response['id']}"
        await call("GET", there, of="/v1/responses/{response_id}")
        await call("POST", f"{there}/cancel", of="/v1/responses/{response_id}/cancel")
        await call("GET", f"{there}/input_items", of="/v1/responses/{response_id}/input_items")
        for method, end, given in (
            ("GET", "", None),
            ("POST", "", {"name": "other"}),
            ("GET", "/items", None),
            ("POST", "/items", {"items": [{"role": "user", "content": "more"}]}),
            ("GET", "/tree", None),
            ("POST", "/fork", {"name": "fork"}),
        ):
            await call(method, here + end, given, of=one + end)
        await call("GET", "/v1/conversations", limit=5)
        await call("GET", "/v1/conversations/search", query="Hi")
        await call("DELETE", there, of="/v1/responses/{response_id}")
        await call("DELETE", here, of=one)
        await call("POST", "/admin/cache/flush")
        answer = await site.http.post("/v1/responses", content=b"{")
        check(document, "ErrorResponse", answer.json())

    at_site(body, settings)


def test_a_stream_over_http_is_as_the_document_says(settings: LocalSettings) -> None:
    """Each event is one of those that the operation lists."""

    async def body(site: Site) -> None:
        asked = {"input": "Hi", "max_output_tokens": 3, "stream": True}
        async with site.events("POST", "/v1/responses", asked) as events:
            check_events([event async for event in events])

    at_site(body, settings)


def test_a_wire_value_is_described_as_it_is_sent() -> None:
    """The client's side: an event with every default is one that the document admits."""
    names = names_by_type(CLIENT)
    for kind in CLIENT:
        required = {
            name: 1 if name == "revision" else "some_id"
            for name, field in kind.__dataclass_fields__.items()
            if field.default is dataclasses.MISSING
        }
        event = wire_dict(kind(**required))
        check(ASYNCAPI, names[event["type"]], event)
