"""Which conversation one is in, and what becomes of it besides being answered. Knows no turn."""

from __future__ import annotations

from radixchat.chat_cli.chat_state import ChatState
from radixchat.chat_cli.commands import ConversationCommand, StartNew, Undo
from radixchat.chat_cli.control_characters import neutral_line
from radixchat.server.protocol import ErrorInfo, InvalidRequest

_EXCERPT = 60


class ConversationCommands:
    """Performs what changes the conversation, or goes to another; raises RadixChatError."""

    def __init__(self, state: ChatState) -> None:
        self._state = state

    async def perform(self, command: ConversationCommand) -> ErrorInfo | None:
        """Do it; why it was refused, if it was."""
        match command:
            case Undo():
                await self._undo()
            case StartNew():
                await self._state.leave()
                self._state.notes.aside("new conversation")
            case _:
                raise InvalidRequest("this command is not there yet")
        return None

    async def _undo(self) -> None:
        state = self._state
        conversation = state.require_conversation()
        await state.look_elsewhere()
        message = await state.client.undo(conversation)
        await state.know()
        excerpt = neutral_line(message.text)
        if len(excerpt) > _EXCERPT:
            excerpt = f"{excerpt[:_EXCERPT]}…"
        state.notes.aside(f"taken back: {excerpt}")
