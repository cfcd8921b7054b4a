"""The conversation at a terminal: prompt, answer, prompt again.

Owns the loop and what is left in the input line. Knows no key and no rendering.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.answer_settings import answer_settings
from radixchat.chat_cli.command_line import (
    HOW_TO_EDIT,
    HOW_TO_LEAVE,
    line_of,
    parse,
    parse_edited,
)
from radixchat.chat_cli.commands import (
    ClearScreen,
    Command,
    Edit,
    InputCommand,
    Leave,
    Paste,
    Say,
    ToggleMultiline,
)
from radixchat.chat_cli.completion import CommandCompletion
from radixchat.chat_cli.dialogue import Dialogue
from radixchat.chat_cli.edit_price import price_of_edit
from radixchat.chat_cli.interrupts import ABANDONING_SECONDS, Interrupts, Target
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.prompt import Prompt, PromptInterrupted
from radixchat.chat_cli.quiet_terminal import QuietTerminal
from radixchat.chat_cli.surroundings import Surroundings
from radixchat.server.protocol import RadixChatError

_MULTILINE = "Enter begins a new line, Alt-Enter sends; commands are as ever, /multi ends this"

# What prompt_toolkit makes of a byte that is no text: a terminal may type another encoding.
_BYTES = 0xDC00
_NO_TEXT = re.compile("[\udc80-\udcff]")
_GONE = "conversation_not_found"


@dataclass(frozen=True, slots=True)
class Draft:
    """What the input line begins with; `turn`: the user turn that it is to replace."""

    text: str = ""
    turn: int | None = None

    def prompt(self, *, multiline: bool) -> str:
        """What stands before it."""
        edit = "" if self.turn is None else f"edit {self.turn}"
        return f"{edit}{' ' if edit and multiline else ''}{'multi' if multiline else ''}> "

    def command(self, entry: str) -> Command:
        """What an entry means here."""
        return parse(entry) if self.turn is None else parse_edited(entry, self.turn)


class Repl:
    """Reads and answers until the user leaves."""

    def __init__(
        self,
        dialogue: Dialogue,
        prompt: Prompt,
        terminal: QuietTerminal,
        notes: Notes,
        interrupts: Interrupts,
    ) -> None:
        self._dialogue = dialogue
        self._prompt = prompt
        self._terminal = terminal
        self._notes = notes
        self._interrupts = interrupts
        self._surroundings = Surroundings(dialogue.state, prompt)

    async def run(self) -> int:
        """The exit code: what was refused or failed has been shown, and is none."""
        loop = asyncio.get_running_loop()
        self._interrupts.on_interrupt = lambda: loop.call_soon_threadsafe(self._prompt.drop_keys)
        self._dialogue.chooser = self._prompt
        names = [setting.name for setting in answer_settings()]
        self._prompt.completion = CommandCompletion(names)
        # Between a prompt and an answer there is nothing to stop; a Ctrl-C must not end the chat.
        with self._interrupts.directed_to(Target(self._interrupts.note_stop, lambda: None)):
            try:
                return await self._run()
            finally:
                await self._surroundings.close()

    def refresh(self) -> None:
        """Read anew what the input line shows of the chat: somebody else answers."""
        self._surroundings.refresh()

    async def _run(self) -> int:
        draft = Draft()
        while self._interrupts.leaving is None:
            self._surroundings.refresh()
            message = draft.prompt(multiline=self._prompt.multiline)
            try:
                entry = await self._prompt.read(message, draft.text)
            except EOFError:
                if draft.turn is None:
                    break
                draft = Draft()
                continue
            except PromptInterrupted:
                self._interrupted(draft)
                draft = Draft()
                continue
            command = draft.command(entry)
            if isinstance(command, Leave):
                break
            draft = await self._follow(command, Draft(entry, draft.turn))
            if self._dialogue.engine_failed:
                return exit_codes.ERROR
        return exit_codes.OK if self._interrupts.leaving is None else self._interrupts.leaving

    def _interrupted(self, draft: Draft) -> None:
        if self._interrupts.leaving is not None:
            return
        if self._interrupts.stopped_recently:
            self._interrupts.leave(exit_codes.INTERRUPTED, ABANDONING_SECONDS)
        elif draft.turn is None:
            self._notes.aside(HOW_TO_LEAVE)

    async def _follow(self, command: Command, entered: Draft) -> Draft:
        """Do what was entered; the next draft."""
        if not entered.text.strip():
            return Draft()
        if (wrong := _NO_TEXT.search(entered.text)) is not None:
            byte = f"0x{ord(wrong[0]) - _BYTES:02x}"
            self._notes.error(f"a byte was typed that is not UTF-8, {byte}; nothing was sent")
            return entered
        if isinstance(command, Edit) and entered.turn is None:
            draft = await self._draft_of(command.turn)
            if draft.turn is None:
                return draft
            if command.text is None:
                self._notes.aside(HOW_TO_EDIT)
                return draft
            entered = Draft(line_of(command.text), draft.turn)
            command = Edit(draft.turn, command.text)
        elif isinstance(command, ToggleMultiline | Paste | ClearScreen):
            return await self._change_input(command)
        return await self._perform(command, entered)

    async def _change_input(self, command: InputCommand) -> Draft:
        match command:
            case ToggleMultiline():
                self._prompt.multiline = not self._prompt.multiline
                self._notes.aside(_MULTILINE if self._prompt.multiline else "Enter sends")
            case ClearScreen():
                if not self._prompt.clear_screen():
                    self._notes.error("this terminal cannot be cleared, it takes text only")
            case Paste():
                return await self._pasted()
        return Draft()

    async def _pasted(self) -> Draft:
        """What the clipboard has, as a message to be sent or changed."""
        # Here, because only a paste needs what it imports.
        from radixchat.chat_cli.clipboard import Clipboard

        clipboard = Clipboard.of_this_process()
        assert clipboard is not None, "a prompt has a terminal"
        try:
            text = await clipboard.read()
        except RadixChatError as error:
            self._notes.error(str(error))
            return Draft()
        if not text:
            self._notes.error("the clipboard has no text")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._prompt.keep_paste(text)
        return Draft(line_of(text))

    async def _perform(self, command: Command, entered: Draft) -> Draft:
        """Perform it; the next draft: what was entered, if it is a message that was refused.

        A command is not given back: whatever is typed next would become a part of it. Nor is a
        message when keys wait already, which were meant for an empty line.
        """
        with self._terminal.quiet(), self._prompt.keys_kept():
            refusal = await self._dialogue.perform(command)
        if refusal is None:
            return Draft()
        if not isinstance(command, Say | Edit):
            return Draft(turn=entered.turn)
        if refusal.code == _GONE:
            self._notes.aside("your text is kept: Up brings it back")
            return Draft()
        if self._prompt.has_keys:
            self._notes.note("your message was not sent; Up brings it back")
            return Draft()
        return entered

    async def _draft_of(self, turn: int | None) -> Draft:
        """The text of a user turn, to be changed; the last one for None."""
        try:
            texts = await self._dialogue.user_turns()
        except RadixChatError as error:
            self._notes.error(str(error))
            return Draft()
        number = len(texts) if turn is None else turn
        if not 1 <= number <= len(texts):
            self._notes.error(
                f"there is no message {number} to edit; there are {len(texts)}"
                if texts
                else "there is no message to edit yet"
            )
            return Draft()
        assert self._dialogue.state.conversation is not None
        price = await price_of_edit(
            self._dialogue.state.client, self._dialogue.state.conversation, number
        )
        if price is not None:
            self._notes.aside(price)
        return Draft(line_of(texts[number - 1]), number)
