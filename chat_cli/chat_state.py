"""What a chat is about: its conversation, what is known of that, what answers are asked for.

Owns the exit code that the run has earned so far. Shared by those who perform commands; knows
none of these, and shows no answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.chooser import Chooser
from radixchat.chat_cli.client import ChatClient, Waits
from radixchat.chat_cli.foreign_changes import foreign_changes
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.settings import ChatSettings
from radixchat.server.protocol import (
    ConversationNotFound,
    ErrorInfo,
    InvalidRequest,
    MessageView,
    RadixChatError,
    ResponseDone,
    ServerUnreachable,
)

NO_TURN = "the conversation has no turn yet"
_LOOK_SECONDS = 0.5
"""How long whoever leaves waits to hear whether there is anything to come back to."""


class ChatState:
    """One conversation at a time; it is created with its first message.

    conversation: its id; None: it is not made yet. known: its path as it was last seen. system: of
    the conversation that is to be made next. options: what every answer is asked for. last: the
    record of the last turn of this conversation; None: there was none in this run. attachments:
    texts to be put before the next message. left_out: the messages that the last answer did
    without. is_behind: a turn was begun whose server is lost, and nobody tells what of it is. made:
    the ids of the conversations that this run has made. on_screen: answers go to a terminal, where
    somebody sees them. goes_on: another command may follow. chooser: who can be asked for a key, if
    anybody can.
    """

    def __init__(self, client: ChatClient, settings: ChatSettings, notes: Notes) -> None:
        self.client = client
        self.notes = notes
        self.options = settings.answer
        self.system = settings.system
        self.conversation: str | None = None
        self.known: Sequence[MessageView] = ()
        self.last: ResponseDone | None = None
        self.attachments: list[str] = []
        self.left_out: tuple[str, ...] = ()
        self.is_behind = False
        self.made: list[str] = []
        self.on_screen = False
        self.goes_on = True
        self.chooser: Chooser | None = None
        self.exit_code = exit_codes.OK
        self.engine_failed = False

    @property
    def stored(self) -> str | None:
        """The conversation's id, once it has a turn that one can come back to."""
        has_turn = self.is_behind or any(message.role == "user" for message in self.known)
        return self.conversation if has_turn else None

    def require_conversation(self) -> str:
        """The conversation's id. Raises InvalidRequest while there is none."""
        if self.conversation is None:
            raise InvalidRequest(NO_TURN)
        return self.conversation

    async def look(self) -> None:
        """Read the path again. Raises RadixChatError."""
        if self.conversation is not None:
            self.known = await self.client.messages(self.conversation)
            self.is_behind = False

    async def know(self) -> None:
        """Read the path again, where it can be read: what needs it says that it cannot."""
        with contextlib.suppress(RadixChatError):
            await self.look()

    async def look_elsewhere(self) -> None:
        """Tell what another process did to the conversation since it was last looked at.

        Raises ServerUnreachable.
        """
        before, was_behind = self.known, self.is_behind
        try:
            await self.look()
        except ServerUnreachable:
            raise
        except RadixChatError:
            return  # a store that cannot be read fails the command too, which then says so
        told = None if was_behind else foreign_changes(before, self.known)
        if told is not None:
            self.notes.note(told)

    async def enter(self, conversation: str) -> list[MessageView]:
        """Go on with a stored conversation; its messages. Raises RadixChatError: nothing changed.

        The next new one has its system message.
        """
        messages = await self.client.messages(conversation)
        self.forget()
        self.conversation = conversation
        self.known = messages
        self.is_behind = False
        self.system = system_of(messages)
        await self.client.open_conversation(conversation)
        return messages

    async def leave(self) -> None:
        """Begin another conversation with the next message. Raises RadixChatError."""
        if self.conversation is not None:
            await self.close(self.conversation)
        self.forget()

    async def close(self, conversation: str) -> None:
        """Say that nobody is about to go on with it; it may be gone. Raises RadixChatError."""
        with contextlib.suppress(ConversationNotFound):
            await self.client.close_conversation(conversation)

    async def is_gone(self) -> bool:
        """Whether somebody else has deleted the conversation, as far as that is known at once."""
        if self.conversation is None or (isinstance(self.client, Waits) and self.client.is_lost):
            return False
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await self.client.conversation(self.conversation)
        except ConversationNotFound:
            return True
        except (RadixChatError, TimeoutError):
            return False
        return False

    def forget(self) -> None:
        """As `leave`, and nobody is told: the conversation is gone, or goes on elsewhere."""
        self.conversation = self.last = None
        self.known = self.left_out = ()
        self.is_behind = False

    async def create(self) -> str:
        """The conversation's id, which is made if there is none yet. Raises RadixChatError."""
        if self.conversation is None:
            self.conversation = await self.client.create_conversation(self.system)
            self.made.append(self.conversation)
            self.known = await self.client.messages(self.conversation)
        return self.conversation

    async def unmake(self) -> None:
        """Delete the conversation, in which nothing was said; the next message makes another."""
        conversation = self.require_conversation()
        await self.client.delete_conversation(conversation)
        self.made.remove(conversation)
        self.forget()

    def say_failed(self, error: ErrorInfo) -> ErrorInfo:
        """Show why a command was refused; it earns the exit code."""
        self.notes.error(error.message)
        self.note_failure(error)
        return error

    def note_failure(self, error: ErrorInfo | None) -> None:
        """The first failure decides the exit code; one of the engine ends the run."""
        if error is not None:
            self.engine_failed = self.engine_failed or error.code == "engine_failed"
            if self.exit_code == exit_codes.OK:
                self.exit_code = exit_codes.for_error(error)


def system_of(messages: Sequence[MessageView]) -> str | None:
    """A path's system message, if it has one."""
    return next((message.text for message in messages if message.role == "system"), None)
