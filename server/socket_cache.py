"""What a client asks of the cache on a socket: what it has, and to have what is being typed.

Owns the drafts of one connection. Knows no socket: an event goes in, a reply comes out. Raises
what the service raises.
"""

from __future__ import annotations

import contextlib

from radixchat.engine.errors import ConversationNotFound, RadixChatError
from radixchat.server.api_error import invalid_value, missing
from radixchat.server.encode import segments
from radixchat.server.input_messages import input_messages
from radixchat.server.response_object import details_of
from radixchat.server.service import ChatService
from radixchat.server.wire_client_events import (
    CacheInspect,
    CacheTreeGet,
    PrefillDraft,
    PrefillDrop,
    ServerStats,
)
from radixchat.server.wire_server_events import (
    CacheInspected,
    CacheTreeReply,
    PrefillDropped,
    PrefillReady,
    Reply,
    ServerStatsReply,
)
from radixchat.server.wire_session import CacheTreeObject

CacheEvent = CacheInspect | CacheTreeGet | PrefillDraft | PrefillDrop | ServerStats


class SocketCache:
    """One connection's view of the cache."""

    def __init__(self, service: ChatService, *, is_operator: bool) -> None:
        self._service = service
        self._is_operator = is_operator
        self._drafted: set[str] = set()

    async def answer(self, event: CacheEvent) -> Reply:
        """Do what the event says, and tell. A draft is answered when it is computed."""
        match event:
            case PrefillDraft():
                return await self._draft(event)
            case PrefillDrop():
                self._drafted.discard(event.session_id)
                await self._service.drop_draft(event.session_id)
                return PrefillDropped(in_reply_to=event.event_id, session_id=event.session_id)
            case CacheInspect():
                return await self._inspect(event)
            case CacheTreeGet():
                tree = CacheTreeObject.of(await self._service.cache_tree(event.session_id))
                return CacheTreeReply(
                    in_reply_to=event.event_id,
                    nodes=tree.nodes,
                    pool_tokens=tree.pool_tokens,
                    cached_tokens=tree.cached_tokens,
                    free_tokens=tree.free_tokens,
                    left_out=tree.left_out,
                )
            case ServerStats():
                stats = await self._service.stats(everybody=self._is_operator)
                return ServerStatsReply(in_reply_to=event.event_id, stats=stats)

    async def close(self) -> None:
        """Give back what was computed of drafts that nobody sends any more."""
        for conversation in self._drafted:
            with contextlib.suppress(RadixChatError):  # it may be gone, or the engine
                await self._service.drop_draft(conversation)

    async def _draft(self, event: PrefillDraft) -> Reply:
        self._drafted.add(event.session_id)
        try:
            tokens = await self._service.draft(event.session_id, event.revision, event.text)
        except ConversationNotFound:
            self._drafted.discard(event.session_id)
            raise
        return PrefillReady(
            in_reply_to=event.event_id,
            session_id=event.session_id,
            revision=event.revision,
            tokens=tokens,
        )

    async def _inspect(self, event: CacheInspect) -> Reply:
        text = ""
        if event.input is not None:
            messages = input_messages(event.input)
            if len(messages) != 1:
                message = f"input has {len(messages)} messages; one can be looked up, the user's"
                raise invalid_value("input", message)
            text = messages[0].text
        if event.turn is not None and event.session_id is None:
            raise missing("session_id")
        report = await self._service.inspect(
            conversation=event.session_id, text=text, turn=event.turn, texts=event.texts
        )
        miss = report.divergence
        return CacheInspected(
            in_reply_to=event.event_id,
            session_id=event.session_id,
            input_tokens=report.input_tokens,
            cached_tokens=report.cached_tokens,
            computed_tokens=report.input_tokens - report.cached_tokens,
            segments=segments(report),
            divergence=None if miss is None else details_of(miss, report.source),
            computing_ms=report.computing_ms,
        )
