"""What Tab can make of a command that is being typed. In an ordinary message, nothing.

Owns which argument is completed from what. Never waits: names of conversations are those that were
read last. Knows no terminal and no keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len, set_cell_size

from radixchat.chat_cli.command_line import COMMANDS, EXPORT_KINDS
from radixchat.server.protocol import ConversationView

_MOST_ROWS = 20


@dataclass(frozen=True, slots=True)
class Candidates:
    """texts: what the line could have from its character `start` on; all begin with `folder`."""

    start: int
    texts: tuple[str, ...] = ()
    folder: str = ""

    @property
    def common(self) -> str:
        """What all of them begin with."""
        if not self.texts:
            return ""
        first, last = min(self.texts), max(self.texts)
        ends = (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
        return first[: next(ends, len(first))]

    def lines(self, width: int) -> list[str]:
        """All of them for people, in columns of at most so many cells in all."""
        names = [text.removeprefix(self.folder).rstrip(" ") for text in self.texts]
        cells = max(map(cell_len, names)) + 2
        rows = -(-len(names) // max(1, (width - 1) // cells))
        lines = [
            "".join(set_cell_size(name, cells) for name in names[row::rows]).rstrip()
            for row in range(min(rows, _MOST_ROWS))
        ]
        left_out = len(names) - sum(len(names[row::rows]) for row in range(len(lines)))
        return [*lines, f"… and {left_out} more"] if left_out else lines


class CommandCompletion:
    """conversations: the ones that can be named, the last used first. settings: names for /set."""

    def __init__(self, settings: Sequence[str] = ()) -> None:
        self.conversations: Sequence[ConversationView] = ()
        self._settings = settings

    def candidates(self, line: str) -> Candidates:
        """What a line could go on with, of which this stands before the cursor."""
        if not line.startswith("/") or line.startswith("//") or "\n" in line:
            return Candidates(0)
        word, space, argument = line.partition(" ")
        if not space:
            return Candidates(0, _beginning(word, (f"{command} " for command in COMMANDS)))
        start = len(word) + 1 + len(argument) - len(argument.lstrip(" "))
        return self._of_argument(word, line[start:], start)

    def is_command(self, line: str) -> bool:
        """Whether the line is a command, as far as its word goes."""
        return "\n" not in line and line.split(" ", 1)[0] in COMMANDS

    def _of_argument(self, word: str, argument: str, start: int) -> Candidates:
        match word:
            case "/switch" | "/delete":
                return Candidates(start, _beginning(argument, self._names(argument)))
            case "/attach":
                return _files(argument, start)
            case "/export":
                kind, space, file = argument.partition(" ")
                if not space:
                    return Candidates(start, _beginning(kind, (f"{k} " for k in EXPORT_KINDS)))
                return _files(file, start + len(kind) + 1)
            case "/set" if " " not in argument:
                return Candidates(start, _beginning(argument, (f"{n} " for n in self._settings)))
            case "/help":
                words = (command.removeprefix("/") for command in COMMANDS)
                return Candidates(start, _beginning(argument.removeprefix("/"), words))
            case "/copy":
                return Candidates(start, _beginning(argument, ("code ",)))
        return Candidates(start)

    def _names(self, typed: str) -> Iterable[str]:
        """Names, and ids: of all of them, or of what has no name while nothing is typed."""
        named = [view for view in self.conversations if view.title and view.title.isprintable()]
        yield from (view.title for view in named)
        yield from (view.id for view in self.conversations if typed or view not in named)


def _beginning(typed: str, texts: Iterable[str]) -> tuple[str, ...]:
    # dict: two conversations may have one name.
    return tuple(dict.fromkeys(text for text in texts if text.startswith(typed)))


def _files(typed: str, start: int) -> Candidates:
    """Files and folders whose names begin so; as typed up to the last slash."""
    folder, slash, name = typed.rpartition("/")
    folder += slash
    try:
        with os.scandir(Path(folder or ".").expanduser()) as entries:
            found = [
                f"{folder}{entry.name}{'/' if entry.is_dir() else ''}"
                for entry in entries
                if entry.name.startswith(name)
                and (name or not entry.name.startswith("."))
                # What cannot be drawn cannot be chosen by its look.
                and entry.name.isprintable()
            ]
    except (OSError, RuntimeError, ValueError):  # no such folder, or user; a NUL in the name
        found = []
    return Candidates(start, tuple(sorted(found)), folder)
