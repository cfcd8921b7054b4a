"""What a client asks of its conversations on a socket, but for responses: `session.*`.

Owns which call of the service answers which event. Knows no socket: an event goes in, a reply
comes out. Raises what the service raises.
"""

from __future__ import annotations

from radixchat.server.service import ChatService
from radixchat.server.wire_client_events import (
    SessionClose,
    SessionCreate,
    SessionDelete,
    SessionExport,
    SessionFork,
    SessionGet,
    SessionList,
    SessionOpen,
    SessionResolve,
    SessionSearch,
    SessionTree,
    SessionUndo,
    SessionUpdate,
)
from radixchat.server.wire_server_events import (
    Reply,
    SessionClosed,
    SessionCreated,
    SessionDeleted,
    SessionExported,
    SessionForked,
    SessionListed,
    SessionOpened,
    SessionResolved,
    SessionRetrieved,
    SessionSearched,
    SessionTreeReply,
    SessionUndone,
    SessionUpdated,
)
from radixchat.server.wire_session import (
    MessageObject,
    SearchHitObject,
    SessionObject,
    TreeMessageObject,
)

SessionEvent = (
    SessionClose
    | SessionCreate
    | SessionDelete
    | SessionExport
    | SessionFork
    | SessionGet
    | SessionList
    | SessionOpen
    | SessionResolve
    | SessionSearch
    | SessionTree
    | SessionUndo
    | SessionUpdate
)


async def answer_session(service: ChatService, event: SessionEvent) -> Reply:
    """Do what the event says, and tell."""
    match event:
        case SessionCreate() | SessionFork():
            return await _make(service, event)
        case SessionUpdate() | SessionUndo() | SessionClose() | SessionDelete():
            return await _change(service, event)
        case SessionOpen():
            await service.open_conversation(event.session_id)
            return SessionOpened(in_reply_to=event.event_id, session_id=event.session_id)
        case SessionList() | SessionSearch() | SessionResolve():
            return await _find(service, event)
        case _:
            return await _read(service, event)


async def _make(service: ChatService, event: SessionCreate | SessionFork) -> Reply:
    replied = event.event_id
    if isinstance(event, SessionFork):
        view = await service.fork_conversation(event.session_id, at=event.at, title=event.name)
        session = SessionObject.of(view)
        return SessionForked(in_reply_to=replied, session=session, from_=event.session_id)
    conversation = await service.create_conversation(
        event.instructions, title=event.name, metadata=event.metadata or {}
    )
    session = await _session(service, conversation)
    return SessionCreated(in_reply_to=replied, session=session)


async def _change(
    service: ChatService, event: SessionUpdate | SessionUndo | SessionClose | SessionDelete
) -> Reply:
    conversation, replied = event.session_id, event.event_id
    match event:
        case SessionUpdate():
            view = await service.update_conversation(
                conversation,
                title=event.name,
                metadata=event.metadata,
                system=event.instructions,
                tip=event.tip,
                expected_tip=event.expected_tip,
            )
            return SessionUpdated(in_reply_to=replied, session=SessionObject.of(view))
        case SessionUndo():
            undone = MessageObject.of(await service.undo(conversation))
            session = await _session(service, conversation)
            return SessionUndone(in_reply_to=replied, session=session, message=undone)
        case SessionClose():
            await service.close_conversation(conversation)
            return SessionClosed(in_reply_to=replied, session_id=conversation)
        case SessionDelete():
            await service.delete_conversation(conversation)
            return SessionDeleted(in_reply_to=replied, session_id=conversation)


async def _find(service: ChatService, event: SessionList | SessionSearch | SessionResolve) -> Reply:
    replied = event.event_id
    match event:
        case SessionList():
            views = await service.conversations(limit=event.limit + 1, after=event.after)
            return SessionListed(
                in_reply_to=replied,
                sessions=tuple(map(SessionObject.of, views[: event.limit])),
                has_more=len(views) > event.limit,
            )
        case SessionSearch():
            hits = await service.search(event.query, limit=event.limit)
            return SessionSearched(in_reply_to=replied, hits=tuple(map(SearchHitObject.of, hits)))
        case SessionResolve():
            conversation = await service.resolve_conversation(event.prefix)
            return SessionResolved(in_reply_to=replied, session_id=conversation)


async def _read(service: ChatService, event: SessionGet | SessionTree | SessionExport) -> Reply:
    conversation, replied = event.session_id, event.event_id
    match event:
        case SessionGet():
            session = await _session(service, conversation)
            messages = await service.messages(conversation)
            return SessionRetrieved(
                in_reply_to=replied,
                session=session,
                messages=tuple(map(MessageObject.of, messages)),
            )
        case SessionTree():
            tree = await service.tree(conversation, warmth=event.warmth)
            return SessionTreeReply(
                in_reply_to=replied,
                session_id=conversation,
                messages=tuple(map(TreeMessageObject.of, tree)),
            )
        case SessionExport():
            text = await service.export(conversation, event.format)
            return SessionExported(
                in_reply_to=replied, session_id=conversation, format=event.format, text=text
            )


async def _session(service: ChatService, conversation: str) -> SessionObject:
    return SessionObject.of(await service.conversation(conversation))
