"""What was typed at the prompt, kept across runs: one line of the file per entry.

Owns the file's format: a JSON string a line, so an entry of several lines stays one entry; with
huge pasted texts it is a list of what was typed and, as {"pasted": TEXT}, what was pasted. An entry
is one append, so two terminals can write at once. Knows no conversation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit.history import History

from radixchat.chat_cli.news_above import AboveTheLine
from radixchat.chat_cli.pasted_text import Part, PastedTexts
from radixchat.chat_cli.paths import private_file

READ_LIMIT = 4 << 20
"""Bytes of the file's end that are read at start; older entries stay in the file."""
WRITE_LIMIT = READ_LIMIT // 2
"""Bytes of one entry; a longer one would push all others out of what is read."""


class EntryHistory(History):
    """The entries of a file, newest first, as lines in which `pasted` have their characters.

    What cannot be read is skipped. What cannot be written, or is too long, is in this run's history
    only, and `warn` is told once.
    """

    def __init__(self, path: Path, pasted: PastedTexts, warn: Callable[[str], None]) -> None:
        super().__init__()
        self._path = path
        self._pasted = pasted
        self._warn = warn
        self._warned = False
        self._above = AboveTheLine()

    def load_history_strings(self) -> Iterable[str]:
        """The stored entries, newest first."""
        try:
            lines = _last_lines(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            self._warn_once(f"the input history cannot be read: {error.strerror}: {self._path}")
            return
        for line in reversed(lines):
            parts = _parse(line)
            if parts:
                yield self._pasted.line(parts)

    def store_string(self, string: str) -> None:
        """Append one entry."""
        line = _line(self._pasted.parts(string))
        if len(line) > WRITE_LIMIT:
            self._warn_once("so long a text is kept in the input history of this run only")
            return
        try:
            private_file(self._path)
            _append(self._path, line)
        except OSError as error:
            self._warn_once(f"the input history cannot be written: {error.strerror}: {self._path}")

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            # An entry is stored while its line is still being drawn.
            self._above.write(lambda: self._warn(text))


def _last_lines(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - READ_LIMIT)
        file.seek(start)
        lines = file.read().split(b"\n")
    return lines[1:] if start else lines


def _line(parts: list[Part]) -> bytes:
    entry: object = [{"pasted": part.text} if part.is_pasted else part.text for part in parts]
    if not any(part.is_pasted for part in parts):
        entry = "".join(part.text for part in parts)
    # ASCII: a byte that was typed and is not UTF-8 is half a surrogate pair, which UTF-8 has not.
    return json.dumps(entry).encode("ascii") + b"\n"


def _parse(line: bytes) -> list[Part] | None:
    """The parts of an entry; None: the line is none."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None  # a torn write of a crash
    parts: list[Part] = []
    for part in entry if isinstance(entry, list) else [entry]:
        is_pasted = isinstance(part, dict)
        text = part.get("pasted") if is_pasted else part
        if not isinstance(text, str):
            return None
        parts.append(Part(text, is_pasted))
    return parts


def _append(path: Path, line: bytes) -> None:
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            line = b"\n" + line  # an entry that a crash tore must not spoil this one
        os.write(fd, line)
    finally:
        os.close(fd)
