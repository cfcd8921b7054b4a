"""Messages as items of OpenAI's API, and pages of them. Knows no request and no store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from radixchat.server.api_error import invalid_value
from radixchat.server.protocol import MessageView, ResponseCreated, TreeMessage
from radixchat.server.wire_conversation import Item, ItemContent, ItemList
from radixchat.server.wire_query import ListQuery

Role = Literal["user", "assistant", "system"]
_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def item_of(message: MessageView | TreeMessage) -> Item:
    """A message as an item; what was cut short is incomplete."""
    by_model = message.role == "assistant"
    text = ItemContent(
        type="output_text" if by_model else "input_text",
        text=message.text,
        annotations=() if by_model else None,
    )
    return Item(
        id=message.id,
        role=_ROLES[message.role],
        status="completed" if message.status == "complete" else "incomplete",
        content=(text,),
    )


def input_items(tree: Sequence[TreeMessage], created: ResponseCreated) -> list[Item]:
    """What a response answers, oldest first: the path to its question, as far as it was asked."""
    messages = {message.id: message for message in tree}
    path: list[TreeMessage] = []
    at: str | None = created.message
    while at is not None and at in messages:
        path.append(messages[at])
        at = messages[at].parent
    left_out = set(created.left_out)
    return [item_of(message) for message in reversed(path) if message.id not in left_out]


def page_of(items: Sequence[Item], query: ListQuery) -> ItemList:
    """The page of a list, oldest first, that a query asks for. Raises ApiError of a wrong place."""
    ordered = list(items) if query.order == "asc" else list(reversed(items))
    if query.after is not None:
        ids = [item.id for item in ordered]
        if query.after not in ids:
            raise invalid_value("after", f"after is {query.after!r}, which is none of these items")
        ordered = ordered[ids.index(query.after) + 1 :]
    return item_list(ordered[: query.limit], has_more=len(ordered) > query.limit)


def item_list(items: Sequence[Item], *, has_more: bool = False) -> ItemList:
    """Items as a list object; without any its ids are empty."""
    return ItemList(
        data=tuple(items),
        first_id=items[0].id if items else "",
        last_id=items[-1].id if items else "",
        has_more=has_more,
    )
