"""The input line: keys, several lines in one message, history. A thin layer over prompt_toolkit.

Owns what is on the screen between two answers. Knows no conversation: it returns what was entered.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session, get_app, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.plain_text import PlainTextOutput
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from radixchat.chat_cli.completion import Candidates, CommandCompletion
from radixchat.chat_cli.editor import EditorFailed, edited
from radixchat.chat_cli.history import EntryHistory
from radixchat.chat_cli.interrupts import Interrupts, Target
from radixchat.chat_cli.key_question import asked_key
from radixchat.chat_cli.line_drawing import LineDrawing
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.paste_input import PasteInput
from radixchat.chat_cli.pasted_text import PastedTexts
from radixchat.chat_cli.prompt_keys import KeyActions, PromptInterrupted, key_bindings
from radixchat.chat_cli.reflow import HoldingOutput, ReflowingRenderer
from radixchat.chat_cli.type_ahead import MOST_KEYS, TypeAhead

__all__ = ["Prompt", "PromptInterrupted"]

_STYLE = "ansicyan bold"
_STYLES = Style([("bottom-toolbar", "noreverse dim")])


class Prompt:
    """Reads messages from the terminal on standard input, or from `keys`; draws on `screen`.

    history: the file of what was entered; None: it is forgotten. dumb: the screen takes text only.
    multiline: Enter begins another line, except in a command; Alt-Enter sends. bottom: what stands
    below the line, in so many cells; None: nothing does.
    """

    def __init__(
        self,
        screen: TextIO,
        history: Path | None,
        notes: Notes,
        interrupts: Interrupts,
        *,
        dumb: bool,
        keys: Input | None = None,
    ) -> None:
        self.completion = CommandCompletion()
        self.multiline = False
        self.bottom: Callable[[int], str] | None = None
        self._screen = screen
        self._notes = notes
        self._interrupts = interrupts
        self._dumb = dumb
        self._pasted = PastedTexts()
        self._message = ""
        self._editing: asyncio.Task[None] | None = None
        entries: History = InMemoryHistory()
        if history is not None:
            entries = EntryHistory(history, self._pasted, notes.note)
        with create_app_session(
            input=keys or PasteInput(sys.stdin), output=_output(screen, dumb=dumb)
        ):
            self._session: PromptSession[str] = PromptSession(
                history=entries,
                multiline=True,
                enable_suspend=True,
                complete_while_typing=False,
                input_processors=[LineDrawing(self._pasted, self._indent)],
                key_bindings=key_bindings(self._actions()),
                style=_STYLES,
            )
        app = self._session.app
        app.renderer = ReflowingRenderer(app.renderer.style, app.output)
        # A signal tells it. Asking as well draws everything twice, once when the next change may
        # have begun.
        app.terminal_size_polling_interval = None
        self._ahead = TypeAhead(app.input)

    async def read(self, message: str, draft: str) -> str:
        """What is entered after `message`, with `draft` in the line to begin with.

        Raises EOFError (Ctrl-D at an empty line) and PromptInterrupted.
        """
        loop = asyncio.get_running_loop()
        self._message = message
        if self._dumb:
            message += draft  # prompt_toolkit echoes keys there, and nothing else
        else:
            draft = self._pasted.draft(draft)
            self._session.bottom_toolbar = self._toolbar if self.bottom else None
        reading = asyncio.ensure_future(self._read(message, draft))

        def cancel() -> None:
            if self._editing is not None:
                if self._interrupts.leaving is None:
                    return  # a Ctrl-C in an editor is the editor's
                self._editing.cancel()
            reading.cancel()

        def wake() -> None:
            loop.call_soon_threadsafe(cancel)

        with self._interrupts.directed_to(Target(stop=wake, abandon=wake)):
            await asyncio.wait({reading})
        if reading.cancelled():
            raise PromptInterrupted
        return self._pasted.text(reading.result())

    def keep_paste(self, text: str) -> None:
        """Have a text that is pasted by other ways than the terminal's stand as one that is."""
        self._pasted.paste(text)

    def show_below(self, bottom: Callable[[int], str]) -> None:
        """Have this stand below the line, now too if there is one; not where text is all there is.

        bottom: gets how many cells there are.
        """
        self.bottom = bottom
        if not self._dumb:
            self._session.bottom_toolbar = self._toolbar
            self._session.app.invalidate()

    async def choose(self, question: str, keys: str) -> str | None:
        """One of `keys`, the first for Enter; None: they would not say."""
        with self._ahead.left_alone():
            return await asked_key(
                question, keys, self._screen, self._session.app.input, self._interrupts
            )

    def clear_screen(self) -> bool:
        """The next line is the first one; what has scrolled away stays. False: it cannot be."""
        if self._dumb:
            return False
        output = self._session.app.output
        output.erase_screen()
        output.cursor_goto(0, 0)
        output.flush()
        return True

    @contextlib.contextmanager
    def keys_kept(self) -> Iterator[None]:
        """What is typed while the block runs is for the next line; Esc stops what runs."""
        with self._ahead.kept(self._interrupts.stop):
            yield
        if self._ahead.dropped:
            self._notes.note(
                f"of what was typed meanwhile {MOST_KEYS:,} keys are kept, "
                f"{self._ahead.dropped:,} are lost"
            )

    @property
    def has_keys(self) -> bool:
        """Whether keys wait for the next line: they came since the last one was entered."""
        return self._ahead.has_keys

    def drop_keys(self) -> None:
        """Forget them; from the event loop only."""
        self._ahead.drop()

    async def _read(self, message: str, draft: str) -> str:
        # On a dumb terminal prompt_toolkit writes the message first, and a Ctrl-C then would be a
        # signal still.
        with self._session.app.input.raw_mode():
            return await self._session.prompt_async(
                [(_STYLE, message)], default=draft, handle_sigint=False
            )

    def _actions(self) -> KeyActions:
        return KeyActions(
            sends=lambda line: not self.multiline or self.completion.is_command(line),
            paste=lambda text: text if self._dumb else self._pasted.paste(text),
            candidates=lambda line: self.completion.candidates(line),
            show_candidates=self._show_candidates,
            edit=self._begin_edit,
        )

    def _show_candidates(self, found: Candidates) -> None:
        get_app().create_background_task(self._show(found))

    def _begin_edit(self, buffer: Buffer) -> None:
        self._editing = get_app().create_background_task(self._edit(buffer))

    def _indent(self) -> int:
        return get_cwidth(self._message)

    def _toolbar(self) -> StyleAndTextTuples:
        assert self.bottom is not None
        # A row that is not full stays one row in a window that becomes a little narrower.
        text = self.bottom(self._session.app.output.get_size().columns - 1)
        return [("class:bottom-toolbar.text", text)]

    async def _show(self, found: Candidates) -> None:
        """List them above the line, which stands there as it was."""
        columns = self._session.app.output.get_size().columns
        below, self._session.bottom_toolbar = self._session.bottom_toolbar, None
        async with in_terminal(render_cli_done=True):
            self._session.bottom_toolbar = below
            start = "\n" if self._dumb else ""
            self._screen.write(start + "".join(f"{line}\n" for line in found.lines(columns)))
            self._echo()

    async def _edit(self, buffer: Buffer) -> None:
        """Have the line changed in an editor; one that fails leaves it as it is."""
        text = self._pasted.text(buffer.text)
        try:
            async with in_terminal():
                try:
                    new = await edited(text, self._screen if self._screen.isatty() else None)
                except EditorFailed as error:
                    self._notes.error(str(error))
                    new = text
                if new != text:
                    line = new if self._dumb else self._pasted.draft(new)
                    buffer.save_to_undo_stack()
                    buffer.document = Document(line, len(line))
                self._echo()
        finally:
            self._editing = None

    def _echo(self) -> None:
        """Where nothing is drawn, what stands in the line is written again."""
        if self._dumb:
            self._screen.write(self._message + self._session.default_buffer.text)
        self._screen.flush()


class _Terminal(HoldingOutput):
    def get_rows_below_cursor_position(self) -> int:
        """The fewest that there can be.

        What stands below the line is drawn only where this is known. How many there are would have
        to be asked of the terminal, whose answer may come late, into the next message.
        """
        return 1


def _output(screen: TextIO, *, dumb: bool) -> Output:
    if dumb:
        return PlainTextOutput(screen)
    output = _Terminal.from_pty(screen, default_color_depth=ColorDepth.from_env())
    output.enable_cpr = False
    return output
