"""Conversations and stored responses over HTTP: bodies and answers. Wire values, stdlib only.

OpenAI's shapes, with ours beside them under names that OpenAI has not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from radixchat.server.wire_input import Id, InputItem, Metadata, ResponseRequest, Title
from radixchat.server.wire_session import SearchHitObject, TreeMessageObject
from radixchat.server.wire_value import MANY


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseBody(ResponseRequest):
    """The body of POST /v1/responses."""

    stream: bool | None = None
    stream_options: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationCreate:
    """The body of POST /v1/conversations.

    items: messages that it begins with. name, instructions: ours; the system message may also be
    the first of the items.
    """

    items: Annotated[tuple[InputItem, ...], MANY] | None = None
    metadata: Metadata | None = None
    name: Title | None = None
    instructions: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationUpdate:
    """The body of POST /v1/conversations/{id}; what is null stays.

    tip: moved there, if it is still expected_tip.
    """

    metadata: Metadata | None = None
    name: Title | None = None
    tip: Id | None = None
    expected_tip: Id | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationFork:
    """The body of POST /v1/conversations/{id}/fork; at: a message's or a response's id."""

    at: Id | None = None
    name: Title = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsCreate:
    """The body of POST /v1/conversations/{id}/items."""

    items: Annotated[tuple[InputItem, ...], MANY]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationObject:
    """OpenAI's conversation; the fields after metadata are ours."""

    id: str
    object: Literal["conversation"] = "conversation"
    created_at: int
    metadata: Mapping[str, str]
    name: str
    opening: str
    instructions: str | None
    tip: str | None
    updated_at: float
    num_turns: int
    running: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationList:
    """Of conversations, the one used last first; of none, the ids are empty."""

    object: Literal["list"] = "list"
    data: tuple[ConversationObject, ...]
    first_id: str
    last_id: str
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationDeleted:
    """It is no more."""

    id: str
    object: Literal["conversation.deleted"] = "conversation.deleted"
    deleted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseDeleted:
    """It is no more."""

    id: str
    object: Literal["response"] = "response"
    deleted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemContent:
    """type: "input_text" of what was asked, "output_text" of an answer."""

    type: Literal["input_text", "output_text"]
    text: str
    annotations: tuple[Mapping[str, Any], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A message of a conversation."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system"]
    status: Literal["in_progress", "completed", "incomplete"]
    content: tuple[ItemContent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemList:
    """Of messages; of none, the ids are empty."""

    object: Literal["list"] = "list"
    data: tuple[Item, ...]
    first_id: str
    last_id: str
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationTree:
    """Every message of a conversation, parents first."""

    object: Literal["conversation.tree"] = "conversation.tree"
    id: str
    messages: tuple[TreeMessageObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What was found, best first."""

    object: Literal["list"] = "list"
    data: tuple[SearchHitObject, ...]
