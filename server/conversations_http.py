"""`/v1/conversations` over HTTP: OpenAI's calls, and ours for forks, the tree, search and export.

A conversation's items are the messages on its path. They are added and never erased: what is to be
left behind stays in the tree, and the tip is moved (`tip`). Knows no engine.
"""

from __future__ import annotations

from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from radixchat.server.api_error import ApiError, invalid_value, unsupported
from radixchat.server.conversation_items import item_list, item_of, page_of
from radixchat.server.decode import decode_body, decode_value
from radixchat.server.edge import edge_of, principal_of, service_of
from radixchat.server.input_messages import input_messages
from radixchat.server.json_line import JsonLine
from radixchat.server.protocol import ConversationView
from radixchat.server.wire_conversation import (
    ConversationCreate,
    ConversationDeleted,
    ConversationFork,
    ConversationList,
    ConversationObject,
    ConversationTree,
    ConversationUpdate,
    Item,
    ItemsCreate,
    SearchResult,
)
from radixchat.server.wire_input import InputItem
from radixchat.server.wire_query import ExportQuery, ListQuery, SearchQuery
from radixchat.server.wire_session import SearchHitObject, TreeMessageObject
from radixchat.server.wire_value import wire_dict

_MEDIA_TYPES = {"json": "application/json", "markdown": "text/markdown; charset=utf-8"}
T = TypeVar("T")


async def create_conversation(request: Request) -> JsonLine:
    """A new conversation, with messages if some are given; a system message has to be the first."""
    service = service_of(request)
    body = _body(request, ConversationCreate, await request.body() or b"{}")
    messages = _messages(body.items)
    system = body.instructions
    if messages and messages[0][0] == "system":
        if system is not None:
            raise invalid_value("instructions", "items begin with a system message already")
        system, messages = messages[0][1], messages[1:]
    if any(role == "system" for role, _ in messages):
        raise invalid_value("items", "a system message can only be the first of a conversation")
    id_ = await service.create_conversation(
        system=system, title=body.name or "", metadata=body.metadata or {}
    )
    view = await service.conversation(id_)
    if messages:
        await _add(request, view, messages)
    return _shown(await service.conversation(id_))


async def list_conversations(request: Request) -> JsonLine:
    """A page of them, the one used last first."""
    query = decode_value(ListQuery, dict(request.query_params))
    if query.order != "desc":
        raise unsupported(
            "order", f"order is {query.order!r}; conversations are listed latest first"
        )
    found = await service_of(request).conversations(limit=query.limit + 1, after=query.after)
    views = found[: query.limit]
    page = ConversationList(
        data=tuple(_object(view) for view in views),
        first_id=views[0].id if views else "",
        last_id=views[-1].id if views else "",
        has_more=len(found) > query.limit,
    )
    return JsonLine(wire_dict(page))


async def retrieve_conversation(request: Request) -> JsonLine:
    """One conversation."""
    return _shown(await service_of(request).conversation(_id(request)))


async def update_conversation(request: Request) -> JsonLine:
    """Other metadata, another name or tip."""
    body = _body(request, ConversationUpdate, await request.body())
    view = await service_of(request).update_conversation(
        _id(request),
        title=body.name,
        metadata=body.metadata,
        tip=body.tip,
        expected_tip=body.expected_tip,
    )
    return _shown(view)


async def delete_conversation(request: Request) -> JsonLine:
    """Erase it, and what is cached of it alone."""
    id_ = _id(request)
    await service_of(request).delete_conversation(id_)
    return JsonLine(wire_dict(ConversationDeleted(id=id_)))


async def list_items(request: Request) -> JsonLine:
    """A page of the messages on the path."""
    query = decode_value(ListQuery, dict(request.query_params))
    return JsonLine(wire_dict(page_of(await _items(request), query)))


async def create_items(request: Request) -> JsonLine:
    """Add messages at the tip, as they are: nothing is answered."""
    body = _body(request, ItemsCreate, await request.body())
    messages = _messages(body.items)
    if not messages:
        raise invalid_value("items", "items is an empty list; there is nothing to add")
    view = await service_of(request).conversation(_id(request))
    await _add(request, view, messages)
    items = await _items(request)
    return JsonLine(wire_dict(item_list(items[-len(messages) :])))


async def retrieve_item(request: Request) -> JsonLine:
    """One message on the path."""
    wanted = request.path_params["item_id"]
    for item in await _items(request):
        if item.id == wanted:
            return JsonLine(wire_dict(item))
    message = f"conversation {_id(request)} has no item {wanted!r}"
    raise ApiError(404, "item_not_found", message, param="item_id")


async def delete_item(request: Request) -> JsonLine:
    """Refused: the tree only grows."""
    raise unsupported("item_id", "a message is never erased: move the tip (tip) or fork")


async def fork_conversation(request: Request) -> JsonLine:
    """A new conversation that shares all up to a message; copies nothing."""
    body = _body(request, ConversationFork, await request.body() or b"{}")
    service = service_of(request)
    return _shown(await service.fork_conversation(_id(request), at=body.at, title=body.name))


async def show_tree(request: Request) -> JsonLine:
    """Every message of the conversation, those that it has left too."""
    id_ = _id(request)
    messages = tuple(map(TreeMessageObject.of, await service_of(request).tree(id_)))
    return JsonLine(wire_dict(ConversationTree(id=id_, messages=messages)))


async def export_conversation(request: Request) -> Response:
    """The conversation as one text."""
    query = decode_value(ExportQuery, dict(request.query_params))
    text = await service_of(request).export(_id(request), query.format)
    return Response(text, media_type=_MEDIA_TYPES[query.format])


async def search(request: Request) -> JsonLine:
    """The messages with these words, in all conversations."""
    query = decode_value(SearchQuery, dict(request.query_params))
    hits = await service_of(request).search(query.query, limit=query.limit)
    return JsonLine(wire_dict(SearchResult(data=tuple(map(SearchHitObject.of, hits)))))


def _id(request: Request) -> str:
    id_: str = request.path_params["conversation_id"]
    return id_


def _body(request: Request, kind: type[T], data: bytes) -> T:
    return decode_body(kind, data, strict=edge_of(request).settings.strict)


def _object(view: ConversationView) -> ConversationObject:
    return ConversationObject(
        id=view.id,
        created_at=int(view.created_at),
        metadata=view.metadata,
        name=view.title,
        opening=view.opening,
        instructions=view.system,
        tip=view.tip,
        updated_at=view.updated_at,
        num_turns=view.num_turns,
        running=view.running,
    )


def _shown(view: ConversationView) -> JsonLine:
    return JsonLine(wire_dict(_object(view)))


def _messages(items: tuple[InputItem, ...] | None) -> list[tuple[str, str]]:
    """Roles and texts. Raises ApiError of what is no message."""
    if not items:
        return []
    return [(said.role, said.text) for said in input_messages(items, to_answer=False)]


async def _items(request: Request) -> list[Item]:
    return [item_of(said) for said in await service_of(request).messages(_id(request))]


async def _add(request: Request, view: ConversationView, messages: list[tuple[str, str]]) -> None:
    """Add messages at the tip. Raises ConversationLocked where that has moved meanwhile."""
    host, principal = edge_of(request).host, principal_of(request).id
    await host.database(
        host.store.graft,
        view.id,
        principal=principal,
        messages=messages,
        expected_tip=view.tip,
    )


_ALL = "/v1/conversations"
_ONE = f"{_ALL}/{{conversation_id}}"
ROUTES = (
    Route(_ALL, create_conversation, methods=["POST"]),
    Route(_ALL, list_conversations, methods=["GET"]),
    Route(f"{_ALL}/search", search, methods=["GET"]),
    Route(_ONE, retrieve_conversation, methods=["GET"]),
    Route(_ONE, update_conversation, methods=["POST"]),
    Route(_ONE, delete_conversation, methods=["DELETE"]),
    Route(f"{_ONE}/items", list_items, methods=["GET"]),
    Route(f"{_ONE}/items", create_items, methods=["POST"]),
    Route(f"{_ONE}/items/{{item_id}}", retrieve_item, methods=["GET"]),
    Route(f"{_ONE}/items/{{item_id}}", delete_item, methods=["DELETE"]),
    Route(f"{_ONE}/fork", fork_conversation, methods=["POST"]),
    Route(f"{_ONE}/tree", show_tree, methods=["GET"]),
    Route(f"{_ONE}/export", export_conversation, methods=["GET"]),
)
