"""`RemoteConversations`: what is asked of a server's conversations without answering in them.

Owns how often each question is asked: again where the connection was lost before its reply came,
but what it did is not done twice. Knows no answer: `AsyncChatClient` adds those.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from radixchat.chat_cli.answer_exchange import new_event_id
from radixchat.chat_cli.busy_wait import BusyWait
from radixchat.chat_cli.connection_loss import ConnectionLost
from radixchat.chat_cli.inbox import Event
from radixchat.chat_cli.server_connection import ServerConnection
from radixchat.chat_cli.server_link import ServerLink, WaitingStopped
from radixchat.server.event_reader import cache_report
from radixchat.server.heading import check_title
from radixchat.server.message import check_text
from radixchat.server.protocol import (
    MAX_FOUND,
    MAX_LISTED,
    CacheReport,
    CacheTree,
    ConversationLocked,
    ConversationNotFound,
    ConversationView,
    InvalidRequest,
    MessageView,
    RadixChatError,
    ResponseNotFound,
    SearchHit,
    TreeMessage,
    check_limit,
)
from radixchat.server.view_reader import (
    cache_tree,
    conversation_view,
    message_view,
    search_hit,
    tree_message,
)

_PAGE = 50
# What the wire takes; of more the service has its own words.
_MIN_PREFIX, _MAX_ID, _MAX_QUERY = 4, 256, 1000

Look = Callable[[], Awaitable[Event | None]]


class RemoteConversations:
    """One principal's conversations at one server, as a ChatClient has them.

    Raises as `AsyncChatClient` says.
    """

    def __init__(self, link: ServerLink) -> None:
        self._link = link
        self._abandoned: set[str] = set()  # responses that nobody wants, and no server knows so

    async def create_conversation(self, system: str | None = None) -> str:
        """A new, empty conversation's id."""
        check_text("the system message", system or "")
        newest = await self._newest()

        async def look() -> Event | None:
            return await self._made_since(newest, name="", instructions=system, num_turns=0)

        created = await self._ask_once(look, "session.create", instructions=system)
        return str(created["session"]["id"])

    async def latest_conversation(self) -> str | None:
        """The conversation with a turn that was changed last."""
        after: str | None = None
        while True:
            page = await self._ask("session.list", limit=_PAGE, after=after)
            for session in page["sessions"]:
                if session["num_turns"]:
                    return str(session["id"])
            if not page["has_more"]:
                return None
            after = page["sessions"][-1]["id"]

    async def resolve_conversation(self, id_or_prefix: str) -> str:
        """The full id. Raises ConversationNotFound: unknown or ambiguous."""
        if len(id_or_prefix.strip().removeprefix("conv_").upper()) < _MIN_PREFIX:
            message = (
                f"{id_or_prefix!r} is too short: give {_MIN_PREFIX} characters of the id or more"
            )
            raise ConversationNotFound(message)
        if not _can_be_sent(id_or_prefix):
            message = f"no conversation's id starts with {id_or_prefix!r}"
            raise ConversationNotFound(message)
        resolved = await self._ask("session.resolve", prefix=id_or_prefix)
        return str(resolved["session_id"])

    async def conversation(self, conversation: str) -> ConversationView:
        """What is known of it."""
        return conversation_view((await self._get(conversation))["session"])

    async def conversations(
        self, limit: int = 20, after: str | None = None
    ) -> list[ConversationView]:
        """The last changed first; after: those that follow that one."""
        check_limit(limit, MAX_LISTED)
        after = None if after is None else conversation_id(after)
        listed = await self._ask("session.list", limit=limit, after=after)
        return [conversation_view(session) for session in listed["sessions"]]

    async def messages(self, conversation: str) -> list[MessageView]:
        """The path at the conversation's tip, oldest first."""
        return [message_view(message) for message in (await self._get(conversation))["messages"]]

    async def tree(self, conversation: str, *, warmth: bool = False) -> list[TreeMessage]:
        """Every message that the conversation has passed, parents first."""
        tree = await self._ask(
            "session.tree", session_id=conversation_id(conversation), warmth=warmth or None
        )
        return [tree_message(message) for message in tree["messages"]]

    async def search(self, query: str, limit: int = 20) -> list[SearchHit]:
        """Messages of all conversations that have these words, the best first."""
        if len(check_text("the query", query)) > _MAX_QUERY:
            message = f"the query has {len(query)} characters; at most {_MAX_QUERY} will do"
            raise InvalidRequest(message)
        check_limit(limit, MAX_FOUND)
        found = await self._ask("session.search", query=query, limit=limit)
        return [search_hit(hit) for hit in found["hits"]]

    async def export(self, conversation: str, kind: str) -> str:
        """The conversation as "json", all of its branches, or as "markdown", its path."""
        exported = await self._ask(
            "session.export", session_id=conversation_id(conversation), format=kind
        )
        return str(exported["text"])

    async def inspect(
        self,
        *,
        conversation: str | None = None,
        text: str = "",
        turn: int | None = None,
        texts: bool = False,
    ) -> CacheReport:
        """What the next turn, `text`, would find in the cache; changes nothing."""
        inspected = await self._ask(
            "cache.inspect",
            session_id=None if conversation is None else conversation_id(conversation),
            input=check_text("the message", text) or None,
            turn=turn,
            texts=texts or None,
        )
        return cache_report(inspected)

    async def cache_tree(self, conversation: str | None = None) -> CacheTree:
        """The cache's tree of this principal; the given conversation's path is marked."""
        session = None if conversation is None else conversation_id(conversation)
        return cache_tree(await self._ask("cache.tree", session_id=session))

    async def update_conversation(
        self,
        conversation: str,
        *,
        title: str | None = None,
        system: str | None = None,
        tip: str | None = None,
    ) -> ConversationView:
        """Change what is given."""
        check_title(title or "")
        check_text("the system message", system or "")
        fields = {"name": title, "instructions": system, "tip": tip}
        if tip is None and system is None:  # the same name twice is the same
            updated = await self._ask(
                "session.update", session_id=conversation_id(conversation), **fields
            )
            return conversation_view(updated["session"])
        before = (await self._get(conversation))["session"]
        if tip is not None and not _can_be_sent(tip):
            raise InvalidRequest(f"conversation {conversation} has no message {tip!r}")

        async def look() -> Event | None:
            # Whoever has moved it since: to move it again would leave what was said after that.
            now = await self._get(conversation)
            is_done = (now["session"]["tip"], now["session"]["instructions"]) != (
                before["tip"],
                before["instructions"],
            )
            return now if is_done else None

        updated = await self._ask_once(look, "session.update", session_id=conversation, **fields)
        return conversation_view(updated["session"])

    async def delete_conversation(self, conversation: str) -> None:
        """With what only it had in the cache. A turn that runs in it is cancelled first."""
        id_, was_lost = conversation_id(conversation), False
        while True:
            connection = await self._link.connection()
            try:
                await self._reply(connection, "session.delete", session_id=id_)
            except ConnectionLost:
                was_lost = True
                continue
            except ConversationNotFound:
                if not was_lost:  # else it was this that has deleted it
                    raise
            return

    async def fork_conversation(
        self, conversation: str, *, at: str | None = None, title: str = ""
    ) -> ConversationView:
        """Another conversation that goes on from the tip, or from a message or response `at`."""
        check_title(title)
        if at is not None and not _can_be_sent(at):
            await self._get(conversation)
            raise InvalidRequest(f"there is no message {at!r}")
        newest = await self._newest()

        async def look() -> Event | None:
            tip = await self._message(conversation, at)
            return await self._made_since(newest, name=title, tip=tip)

        forked = await self._ask_once(
            look, "session.fork", session_id=conversation_id(conversation), at=at, name=title
        )
        return conversation_view(forked["session"])

    async def undo(self, conversation: str) -> MessageView:
        """Remove the last turn, once; its user's message."""
        before = await self._get(conversation)

        async def look() -> Event | None:
            now = await self._get(conversation)
            users = [message for message in before["messages"] if message["role"] == "user"]
            if now["session"]["tip"] == before["session"]["tip"] or not users:
                return None
            return {"message": users[-1]}

        undone = await self._ask_once(look, "session.undo", session_id=conversation)
        return message_view(undone["message"])

    async def open_conversation(self, conversation: str) -> None:
        """Somebody is about to go on with it; an older server does not know the word."""
        if self._link.is_up:
            connection = await self._link.connection()
            with contextlib.suppress(ConnectionLost, RadixChatError):
                await connection.ask(
                    asking("session.open", session_id=conversation_id(conversation))
                )

    async def close_conversation(self, conversation: str) -> None:
        """Say that nobody is about to go on with it; a server that is lost need not hear it."""
        if self._link.is_up:
            connection = await self._link.connection()
            with contextlib.suppress(ConnectionLost):
                await connection.ask(
                    asking("session.close", session_id=conversation_id(conversation))
                )

    async def _get(self, conversation: str) -> Event:
        return await self._ask("session.get", session_id=conversation_id(conversation))

    async def _newest(self) -> float:
        """When the last conversation was changed; what is made from now on is younger."""
        page = await self._ask("session.list", limit=1)
        return max((float(session["updated_at"]) for session in page["sessions"]), default=0.0)

    async def _made_since(self, newest: float, **like: Any) -> Event | None:
        """The one conversation like that which was made since; None: there is none."""
        page = await self._ask("session.list", limit=_PAGE)
        for session in page["sessions"]:
            is_like = all(session[name] == value for name, value in like.items())
            if session["created_at"] > newest and is_like:
                return {"session": session}
        return None

    async def _message(self, conversation: str, at: str | None) -> str | None:
        """The message that a fork at `at` has last; None: at the conversation's end."""
        got = await self._get(conversation)
        if at is None:
            return None if got["session"]["tip"] is None else str(got["session"]["tip"])
        for message in await self.tree(conversation):
            if at in message.responses:
                return message.id
        return at

    async def _ask(self, type_: str, **fields: Any) -> Event:
        """The reply; asked again where the connection was lost before it came."""

        async def look() -> Event | None:
            return None

        return await self._ask_once(look, type_, **fields)

    async def _ask_once(self, look: Look, type_: str, **fields: Any) -> Event:
        """The reply. look: tells after a loss what stands for it; None: it had not been heard."""
        while True:
            connection = await self._link.connection()
            try:
                return await self._reply(connection, type_, **fields)
            except ConnectionLost:
                found = await look()
                if found is not None:
                    return found

    async def _reply(self, connection: ServerConnection, type_: str, **fields: Any) -> Event:
        """The reply on this connection; a conversation that is busy is asked for a while.

        Raises ConnectionLost, and what is refused.
        """
        busy = BusyWait(self._link.backoff.busy_s, self._link.pause)
        await self._cancel_abandoned(connection)
        while True:
            try:
                return await connection.ask(asking(type_, **fields))
            except ConversationLocked as locked:
                try:
                    await busy.after(locked)
                except WaitingStopped:
                    raise locked from None

    async def _cancel_abandoned(self, connection: ServerConnection) -> None:
        """Have ended what was left while nobody could be told: else it runs for its grace."""
        while self._abandoned:
            response = next(iter(self._abandoned))
            await connection.send(asking("response.cancel", response_id=response))
            self._abandoned.discard(response)


def asking(type_: str, **fields: Any) -> dict[str, Any]:
    """A client event of its own id, with the fields that are not None."""
    given = {name: value for name, value in fields.items() if value is not None}
    return {"type": type_, "event_id": new_event_id(), **given}


def _can_be_sent(id_: str) -> bool:
    return 0 < len(id_) <= _MAX_ID and not any("\ud800" <= char <= "\udfff" for char in id_)


def conversation_id(id_: str) -> str:
    """A conversation's id as the wire takes it. Raises ConversationNotFound: no server has it."""
    if not _can_be_sent(id_):
        raise ConversationNotFound(f"there is no conversation {id_!r}")
    return id_


def response_id(id_: str) -> str:
    """A response's id as the wire takes it. Raises ResponseNotFound: no server has it."""
    if not _can_be_sent(id_):
        raise ResponseNotFound(f"there is no response {id_!r}")
    return id_
