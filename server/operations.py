"""What each HTTP operation takes and answers, by method and path. Values only, no route's code.

The routes are the modules' own (`ROUTES`); a test holds the two against each other, so that a
document made from both leaves nothing out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from radixchat.server.wire_chat_completion import ChatCompletion, ChatCompletionChunk
from radixchat.server.wire_chat_request import ChatCompletionRequest
from radixchat.server.wire_conversation import (
    ConversationCreate,
    ConversationDeleted,
    ConversationFork,
    ConversationList,
    ConversationObject,
    ConversationTree,
    ConversationUpdate,
    Item,
    ItemList,
    ItemsCreate,
    ResponseBody,
    ResponseDeleted,
    SearchResult,
)
from radixchat.server.wire_query import (
    CacheQuery,
    ExportQuery,
    FlushQuery,
    ListQuery,
    ResponseQuery,
    SearchQuery,
)
from radixchat.server.wire_response import ResponseObject
from radixchat.server.wire_response_events import OpenAIEvent
from radixchat.server.wire_service import (
    CacheState,
    Draining,
    Flushed,
    Health,
    ModelList,
    ModelObject,
    Version,
)
from radixchat.server.wire_text_completion import (
    CompletionRequest,
    Detokenized,
    DetokenizeRequest,
    TextCompletion,
    Tokenized,
    TokenizeRequest,
)


@dataclass(frozen=True, slots=True)
class Operation:
    """body, query: what is read. answer: the JSON of `status`; None: none, or a file.

    events: of a stream of server-sent events, the classes of its events. text: media types of an
    answer that is no such JSON. is_public: answered without a key. also: other statuses that have
    the same answer. needs_body: whether nothing will not do.
    """

    answer: type[Any] | None = None
    body: type[Any] | None = None
    query: type[Any] | None = None
    events: tuple[type[Any], ...] = ()
    text: tuple[str, ...] = ()
    status: int = 200
    also: tuple[int, ...] = ()
    is_public: bool = False
    needs_body: bool = True


_RESPONSE_EVENTS: tuple[type[Any], ...] = get_args(OpenAIEvent)
_RESPONSE = "/v1/responses/{response_id}"
_CONVERSATIONS = "/v1/conversations"
_CONVERSATION = f"{_CONVERSATIONS}/{{conversation_id}}"

OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("GET", "/healthz"): Operation(Health, also=(503,), is_public=True),
    ("GET", "/readyz"): Operation(Health, also=(503,), is_public=True),
    ("GET", "/version"): Operation(Version, is_public=True),
    ("GET", "/v1/models"): Operation(ModelList),
    ("GET", "/v1/models/{model}"): Operation(ModelObject),
    ("POST", "/v1/responses"): Operation(
        ResponseObject, body=ResponseBody, events=_RESPONSE_EVENTS
    ),
    ("GET", _RESPONSE): Operation(ResponseObject, query=ResponseQuery, events=_RESPONSE_EVENTS),
    ("DELETE", _RESPONSE): Operation(ResponseDeleted),
    ("POST", f"{_RESPONSE}/cancel"): Operation(ResponseObject),
    ("GET", f"{_RESPONSE}/input_items"): Operation(ItemList, query=ListQuery),
    ("POST", "/v1/chat/completions"): Operation(
        ChatCompletion, body=ChatCompletionRequest, events=(ChatCompletionChunk,)
    ),
    ("POST", "/v1/completions"): Operation(
        TextCompletion, body=CompletionRequest, events=(TextCompletion,)
    ),
    ("POST", "/tokenize"): Operation(Tokenized, body=TokenizeRequest),
    ("POST", "/detokenize"): Operation(Detokenized, body=DetokenizeRequest),
    ("POST", _CONVERSATIONS): Operation(
        ConversationObject, body=ConversationCreate, needs_body=False
    ),
    ("GET", _CONVERSATIONS): Operation(ConversationList, query=ListQuery),
    ("GET", f"{_CONVERSATIONS}/search"): Operation(SearchResult, query=SearchQuery),
    ("GET", _CONVERSATION): Operation(ConversationObject),
    ("POST", _CONVERSATION): Operation(ConversationObject, body=ConversationUpdate),
    ("DELETE", _CONVERSATION): Operation(ConversationDeleted),
    ("GET", f"{_CONVERSATION}/items"): Operation(ItemList, query=ListQuery),
    ("POST", f"{_CONVERSATION}/items"): Operation(ItemList, body=ItemsCreate),
    ("GET", f"{_CONVERSATION}/items/{{item_id}}"): Operation(Item),
    ("DELETE", f"{_CONVERSATION}/items/{{item_id}}"): Operation(ConversationObject),
    ("POST", f"{_CONVERSATION}/fork"): Operation(
        ConversationObject, body=ConversationFork, needs_body=False
    ),
    ("GET", f"{_CONVERSATION}/tree"): Operation(ConversationTree),
    ("GET", f"{_CONVERSATION}/export"): Operation(
        query=ExportQuery, text=("application/json", "text/markdown")
    ),
    ("GET", "/metrics"): Operation(text=("text/plain",)),
    ("GET", "/admin/cache"): Operation(CacheState, query=CacheQuery),
    ("POST", "/admin/cache/flush"): Operation(Flushed, query=FlushQuery),
    ("POST", "/admin/drain"): Operation(Draining, status=202),
    ("GET", "/openapi.json"): Operation(text=("application/json",)),
    ("GET", "/asyncapi.json"): Operation(text=("application/json",)),
    ("GET", "/"): Operation(text=("text/html",), also=(304,), is_public=True),
    ("GET", "/web/{name}"): Operation(
        text=("text/css", "text/javascript", "text/plain", "image/svg+xml"),
        also=(304,),
        is_public=True,
    ),
}
