"""Texts that come from elsewhere and go elsewhere: /copy, /attach. Knows no answer."""

from __future__ import annotations

from radixchat.chat_cli.chat_state import ChatState
from radixchat.chat_cli.commands import ClipboardCommand
from radixchat.server.protocol import ErrorInfo, InvalidRequest


class ClipboardCommands:
    """Performs what copies and attaches; raises RadixChatError."""

    def __init__(self, state: ChatState) -> None:
        self._state = state

    async def perform(self, command: ClipboardCommand) -> ErrorInfo | None:
        """Do it; why it was refused, if it was."""
        raise InvalidRequest("this command is not there yet")
