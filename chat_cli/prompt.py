"""The input line: keys, several lines in one message, history. A thin layer over prompt_toolkit.

Owns what a key does. Knows no command and no conversation: it returns what was entered.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead, get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.plain_text import PlainTextOutput
from prompt_toolkit.output.vt100 import Vt100_Output

from radixchat.chat_cli.history import EntryHistory
from radixchat.chat_cli.interrupts import Interrupts, Target
from radixchat.chat_cli.notes import Notes

_STYLE = "ansicyan bold"


class PromptInterrupted(Exception):
    """Ctrl-C at an empty input line, or a signal."""


class Prompt:
    """Reads messages from the terminal on standard input, or from `keys`; draws on `screen`.

    dumb: the screen takes text only.
    """

    def __init__(
        self,
        screen: TextIO,
        history: Path,
        notes: Notes,
        interrupts: Interrupts,
        *,
        dumb: bool,
        keys: Input | None = None,
    ) -> None:
        self._interrupts = interrupts
        self._dumb = dumb
        with create_app_session(input=keys, output=_output(screen, dumb=dumb)):
            self._session: PromptSession[str] = PromptSession(
                history=EntryHistory(history, notes.note),
                multiline=True,
                enable_suspend=True,
                key_bindings=_key_bindings(),
            )

    async def read(self, message: str, draft: str) -> str:
        """What is entered after `message`, with `draft` in the line to begin with.

        Raises EOFError (Ctrl-D at an empty line) and PromptInterrupted.
        """
        loop = asyncio.get_running_loop()
        if self._dumb:
            message += draft  # prompt_toolkit echoes keys there, and nothing else
        reading = asyncio.ensure_future(
            self._session.prompt_async([(_STYLE, message)], default=draft, handle_sigint=False)
        )

        def wake() -> None:
            loop.call_soon_threadsafe(reading.cancel)

        with self._interrupts.directed_to(Target(stop=wake, abandon=wake)):
            await asyncio.wait({reading})
        if reading.cancelled():
            raise PromptInterrupted
        return reading.result()

    @property
    def has_keys(self) -> bool:
        """Whether keys that came together with the last entry wait for the next one."""
        keys = get_typeahead(self._session.input)
        store_typeahead(self._session.input, keys)
        return bool(keys)

    def drop_keys(self) -> None:
        """Forget them; from a signal handler too."""
        clear_typeahead(self._session.input)


def _output(screen: TextIO, *, dumb: bool) -> Output:
    if dumb:
        return PlainTextOutput(screen)
    output = Vt100_Output.from_pty(screen, default_color_depth=ColorDepth.from_env())
    # Cursor position requests would only serve menus; without them no terminal can answer late,
    # into the next message.
    output.enable_cpr = False
    return output


def _key_bindings() -> KeyBindings:
    """Enter sends, Alt-Enter and backslash-Enter begin another line, Ctrl-C clears the line."""
    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c")
    def _interrupt(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=PromptInterrupted())

    return keys
