"""`--extract`: of an answer only its first code block reaches standard output.

Owns that, and whether there was one. What is said beside the answer is another output's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.code_blocks import code_blocks
from radixchat.chat_cli.control_characters import without_controls
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.render import Answer, Output
from radixchat.server.protocol import ResponseDone


class CodeOutput:
    """Writes the first code block of an answer when that is complete, or was stopped.

    exit_code: ERROR once an answer had none.
    """

    def __init__(self, stream: IO[str], beside: Output, notes: Notes, *, raw: bool = False) -> None:
        """beside: shows what else there is to show; it gets no answer. raw: as in PlainAnswer."""
        self.exit_code = exit_codes.OK
        self._stream = stream
        self._beside = beside
        self._notes = notes
        self._raw = raw

    def begin(self) -> Answer:
        """Nothing is shown before the answer is complete."""
        return _CollectedAnswer(self._write)

    def conclude(self, done: ResponseDone, stopped_by: str | None = None) -> None:
        """What else there is to tell; and that there is no code in an answer."""
        self._beside.conclude(done, stopped_by)
        if done.response and done.error is None and not code_blocks(done.output_text):
            self.exit_code = exit_codes.ERROR
            self._notes.error("the answer has no code block, and --extract prints nothing else")

    def remark(self, text: str) -> bool:
        """The code is written at once: there is room for a note."""
        return False

    def document(self, text: str) -> None:
        """What was asked for by a command is no answer."""
        self._beside.document(text)

    def _write(self, text: str) -> None:
        for block in code_blocks(text)[:1]:
            self._stream.write(block.code if self._raw else without_controls(block.code))
            self._stream.flush()


class _CollectedAnswer:
    """The text as a whole, handed on when it is complete."""

    def __init__(self, complete: Callable[[str], None]) -> None:
        self._complete = complete
        self._parts: list[str] = []
        self._closed = False

    def feed(self, delta: str) -> None:
        """Keep it."""
        self._parts.append(delta)

    def remark(self, text: str) -> bool:
        """Nothing is drawn that it could be below."""
        return False

    def tick(self) -> None:
        """Nothing is drawn."""

    def close(self) -> None:
        """Hand it on."""
        if not self._closed:
            self._closed = True
            self._complete("".join(self._parts))
