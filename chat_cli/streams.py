"""The process's three streams, once looked at: which are terminals, and who writes to which.

Owns that decision, and the repair of missing or narrow streams. Knows no turn.
"""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from rich.console import Console

from radixchat.chat_cli import exit_codes
from radixchat.chat_cli.extract import CodeOutput
from radixchat.chat_cli.notes import Notes
from radixchat.chat_cli.render import JsonOutput, Output, TextOutput

STDIN = 0


@dataclass(frozen=True, slots=True)
class Streams:
    """screen: the terminal that a prompt can be drawn on; None: standard input is none, or there
    is nowhere to draw. answers_on_screen: answers go to that terminal too. has_input: standard
    input is open.
    """

    answers: Console
    errors: Console
    notes: Notes
    output: Output
    screen: TextIO | None
    answers_on_screen: bool
    has_input: bool

    @property
    def screen_is_dumb(self) -> bool:
        """Whether the screen takes text only, by its TERM."""
        return self.answers.is_dumb_terminal or self.errors.is_dumb_terminal

    @property
    def exit_code(self) -> int:
        """What the answers have earned that were not as they were asked for."""
        return self.output.exit_code if isinstance(self.output, CodeOutput) else exit_codes.OK

    @classmethod
    def of_this_process(
        cls,
        *,
        json: bool,
        ids: bool,
        verbatim: bool = False,
        raw: bool = False,
        quiet: bool = False,
        extract: bool = False,
    ) -> Streams:
        """The streams as they are now; both consoles take what their encoding cannot say as `?`.

        json, ids, verbatim, raw, extract: how the output shows answers. quiet: of the notes.
        """
        stdout, stderr = _usable(sys.stdout), _usable(sys.stderr)
        if isinstance(stdout, io.TextIOWrapper):
            # JSON is UTF-8 whatever the locale says.
            stdout.reconfigure(encoding="utf-8" if json else None, errors="replace")
        if isinstance(stderr, io.TextIOWrapper):
            stderr.reconfigure(errors="replace")
        answers, errors = _console(stdout), _console(stderr)
        notes = Notes(errors, quiet=quiet)
        output: Output = TextOutput(answers, notes, verbatim=verbatim, raw=raw)
        if json:
            output = JsonOutput(stdout, ids=ids)
        elif extract:
            output = CodeOutput(stdout, output, notes, raw=raw and not stdout.isatty())
        answers_on_screen = stdout.isatty() and not json
        screen = stdout if answers_on_screen else stderr if stderr.isatty() else None
        is_terminal = sys.stdin is not None and sys.stdin.isatty()
        return cls(
            answers=answers,
            errors=errors,
            notes=notes,
            output=output,
            screen=screen if is_terminal else None,
            answers_on_screen=answers_on_screen,
            has_input=sys.stdin is not None,
        )


def _usable(stream: TextIO | None) -> TextIO:
    # Python sets a stream to None that was closed when the process started (`2>&-`).
    return Path(os.devnull).open("w", encoding="utf-8") if stream is None else stream


def _console(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False, markup=False, emoji=False)
