"""What a server tells of conversations and of its cache, as the service's values again.

The inverse of `wire_session.py`. Standard library only. Trusts the server as `event_reader.py`
does: a field that is missing or of another kind is a `ProtocolError`.
"""

from __future__ import annotations

from radixchat.server.event_reader import Fields, readable
from radixchat.server.views import (
    CacheNode,
    CacheTree,
    ConversationView,
    MessageView,
    SearchHit,
    TreeMessage,
)


def conversation_view(session: Fields) -> ConversationView:
    """A conversation. Raises ProtocolError."""
    return readable("a conversation", _conversation, session)


def message_view(message: Fields) -> MessageView:
    """A message on a path. Raises ProtocolError."""
    return readable("a message", _message, message)


def tree_message(message: Fields) -> TreeMessage:
    """A message of a tree. Raises ProtocolError."""
    return readable("a message", _tree_message, message)


def search_hit(hit: Fields) -> SearchHit:
    """A message that was found. Raises ProtocolError."""
    return readable("a message that was found", _search_hit, hit)


def cache_tree(tree: Fields) -> CacheTree:
    """A picture of the cache. Raises ProtocolError."""
    return readable("a picture of the cache", _cache_tree, tree)


def _conversation(session: Fields) -> ConversationView:
    return ConversationView(
        id=session["id"],
        title=session["name"],
        system=session["instructions"],
        tip=session["tip"],
        created_at=session["created_at"],
        updated_at=session["updated_at"],
        num_turns=session["num_turns"],
        running=session["running"],
        metadata=session["metadata"],
        opening=session["opening"],
    )


def _message(message: Fields) -> MessageView:
    return MessageView(message["id"], message["role"], message["text"], message["status"])


def _tree_message(message: Fields) -> TreeMessage:
    return TreeMessage(
        id=message["id"],
        parent=message["parent"],
        role=message["role"],
        text=message["text"],
        status=message["status"],
        on_path=message["on_path"],
        responses=tuple(message["responses"]),
        created_at=message["created_at"],
        tokens=message.get("tokens"),
        cached=message.get("cached"),
    )


def _search_hit(hit: Fields) -> SearchHit:
    return SearchHit(
        conversation=hit["session_id"],
        title=hit["name"],
        message=hit["message"],
        role=hit["role"],
        snippet=hit["snippet"],
    )


def _cache_tree(tree: Fields) -> CacheTree:
    return CacheTree(
        nodes=tuple(map(_cache_node, tree["nodes"])),
        pool_tokens=tree["pool_tokens"],
        cached_tokens=tree["cached_tokens"],
        free_tokens=tree["free_tokens"],
        left_out=tree["left_out"],
    )


def _cache_node(node: Fields) -> CacheNode:
    return CacheNode(
        id=node["id"],
        parent=node["parent"],
        start=node["start"],
        tokens=node["tokens"],
        seconds_idle=node["seconds_idle"],
        superseded=node["superseded"],
        locked=node["locked"],
        tier=node["tier"],
        on_path=node["on_path"],
    )
