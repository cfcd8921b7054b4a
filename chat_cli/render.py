"""How answers reach standard output: Markdown, plain text, or one JSON object per turn.

Owns what is written there, and that nothing else is. Knows no response's life: `turn.py` feeds it.
"""

from __future__ import annotations

import json
from typing import IO, Protocol, TextIO

from rich.console import Console

from radixchat.chat_cli.control_characters import safe_json, without_controls
from radixchat.chat_cli.markdown_answer import MarkdownAnswer
from radixchat.chat_cli.miss_note import miss_note
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.status_line import status_line
from radixchat.server.protocol import ResponseDone


class Answer(Protocol):
    """One accepted answer while it comes."""

    def feed(self, delta: str) -> None:
        """More text."""

    def remark(self, text: str) -> bool:
        """Show a passing line until more text comes; False: say it otherwise, there is room."""

    def tick(self) -> None:
        """Time has passed; draw what waited."""

    def close(self) -> None:
        """The text is complete. Closing again does nothing."""


class Output(Protocol):
    """Where the turns of a run are shown."""

    def begin(self) -> Answer:
        """An answer has been accepted, or one is shown that is there already."""

    def conclude(self, done: ResponseDone, stopped_by: str | None = None) -> None:
        """A turn has ended: after its answer was closed, or refused before there was one.

        stopped_by: who asked for its end, if somebody did.
        """

    def remark(self, text: str) -> bool:
        """As of the answer that is on its way, if one is."""

    def document(self, text: str) -> None:
        """A text that is no answer, and was asked for: a conversation written out."""


class PlainAnswer:
    """The text as it comes, and a newline at the end.

    Without control characters, as a pipe often ends at a terminal. raw: exactly the model's text.
    """

    def __init__(self, stream: IO[str], *, raw: bool = False) -> None:
        self._stream = stream
        self._raw = raw
        self._closed = False

    def feed(self, delta: str) -> None:
        """Write it through."""
        self._stream.write(delta if self._raw else without_controls(delta))
        self._stream.flush()

    def remark(self, text: str) -> bool:
        """Nothing is taken back; what is said on the same terminal has a line of its own."""
        if self._stream.isatty() and not self._closed:
            self._stream.write("\n")
            self._stream.flush()
        return False

    def tick(self) -> None:
        """Nothing ever waits."""

    def close(self) -> None:
        """End the line."""
        if not self._closed:
            self._closed = True
            self._stream.write("\n")
            self._stream.flush()


class TextOutput:
    """Answers as text for people, with a status line on standard error after each.

    Markdown where the console takes styles, plain text elsewhere; redrawn while it comes only
    where the console is a real terminal (FORCE_COLOR alone does not make one). verbatim: the
    answers are data, of which Markdown would swallow characters and spaces: plain text everywhere.
    raw: that too, and what is no terminal gets the model's text untouched.
    """

    def __init__(
        self, console: Console, notes: Notes, *, verbatim: bool = False, raw: bool = False
    ) -> None:
        self._console = console
        self._notes = notes
        self._verbatim = verbatim or raw
        self._raw = raw and not console.file.isatty()
        self._last: Answer | None = None

    def begin(self) -> Answer:
        """An answer on the console."""
        self._last = self._answer()
        return self._last

    def conclude(self, done: ResponseDone, stopped_by: str | None = None) -> None:
        """The status line, why the cache had less than it might have, and an error."""
        if done.response is not None:
            self._notes.aside(status_line(done, stopped_by))
        if (note := miss_note(done)) is not None:
            self._notes.note(note)
        if done.error is not None:
            self._notes.error(done.error.message)

    def remark(self, text: str) -> bool:
        """Below the answer that is being drawn, where that can be."""
        return self._last is not None and self._last.remark(text)

    def document(self, text: str) -> None:
        """The text as an answer is shown where it is plain."""
        write_document(text, self._console.file, raw=self._raw)

    def _answer(self) -> Answer:
        is_real = self._console.file.isatty()
        takes_styles = self._console.is_terminal and not self._console.is_dumb_terminal
        if takes_styles and not self._verbatim:
            return MarkdownAnswer(self._console, live=is_real)
        return PlainAnswer(self._console.file, raw=self._raw)


class _SilentAnswer:
    """The deltas of a turn that is shown as a whole."""

    def feed(self, delta: str) -> None:
        """The text comes again in the record of the turn."""

    def remark(self, text: str) -> bool:
        """Nothing is on its way to the screen."""
        return False

    def tick(self) -> None:
        """Nothing to draw."""

    def close(self) -> None:
        """Nothing to end."""


class JsonOutput:
    """One line per turn on a stream: the turn's record; with `ids`, its tokens too."""

    def __init__(self, stream: TextIO, *, ids: bool) -> None:
        self._stream = stream
        self._ids = ids

    def begin(self) -> Answer:
        """Nothing is shown before the turn has ended."""
        return _SilentAnswer()

    def conclude(self, done: ResponseDone, stopped_by: str | None = None) -> None:
        """Write the record. A turn that was refused has no response, and so no id: null."""
        record = json.dumps(done.to_turn(ids=self._ids), ensure_ascii=False)
        self._stream.write(safe_json(record) + "\n")
        self._stream.flush()

    def remark(self, text: str) -> bool:
        """A record is written at once: there is room for a note."""
        return False

    def document(self, text: str) -> None:
        """The text as it is, between the records."""
        write_document(text, self._stream)


def write_document(text: str, stream: IO[str], *, raw: bool = False) -> None:
    """The text, with a newline at its end; without control characters unless it is to be `raw`."""
    stream.write(text if raw else without_controls(text))
    if not text.endswith("\n"):
        stream.write("\n")
    stream.flush()
