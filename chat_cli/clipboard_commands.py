"""Texts that come from elsewhere and go elsewhere: /copy, /attach. Knows no terminal."""

from __future__ import annotations

from radixchat.chat_cli.attachment import Attachment
from radixchat.chat_cli.chat_state import ChatState
from radixchat.chat_cli.code_blocks import code_blocks
from radixchat.chat_cli.commands import Attach, ClipboardCommand, Copy
from radixchat.chat_cli.control_characters import without_controls
from radixchat.server.protocol import ErrorInfo, InvalidRequest


class ClipboardCommands:
    """Performs what copies and attaches; raises RadixChatError."""

    def __init__(self, state: ChatState) -> None:
        self._state = state

    async def perform(self, command: ClipboardCommand) -> ErrorInfo | None:
        """Do it; why it was refused, if it was."""
        match command:
            case Copy(code):
                await self._copy(code)
            case Attach(file):
                attachment = Attachment.read(file)
                self._state.attachments.append(attachment.block)
                self._state.notes.aside(str(attachment))
        return None

    async def _copy(self, code: int | None) -> None:
        # Here, because only a copy needs what it imports.
        from radixchat.chat_cli.clipboard import Clipboard

        clipboard = Clipboard.of_this_process()
        if clipboard is None:
            raise InvalidRequest("there is no terminal, and so no clipboard of anybody's")
        text = self._last_answer()
        if code is not None:
            text = _code(text, code)
        # As it was shown: whatever the text is pasted into must not obey it either.
        text = without_controls(text)
        place = await clipboard.write(text)
        what = "the answer" if code is None else f"code block {code}"
        self._state.notes.aside(f"copied {what} ({len(text):,} characters) to {place}")

    def _last_answer(self) -> str:
        for message in reversed(self._state.known):
            if message.role == "assistant":
                return message.text
        raise InvalidRequest("there is no answer yet to copy")


def _code(text: str, number: int) -> str:
    blocks = code_blocks(text)
    if not blocks:
        raise InvalidRequest("the answer has no code block")
    if number > len(blocks):
        count = "one code block" if len(blocks) == 1 else f"{len(blocks)} code blocks"
        raise InvalidRequest(f"the answer has {count}, and no number {number}")
    return blocks[number - 1].code
