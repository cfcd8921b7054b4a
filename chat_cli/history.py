"""What was typed at the prompt, kept across runs: one line of the file per entry.

Owns the file's format: a JSON string a line, so an entry of several lines stays one entry. An
entry is one append, so two terminals can write at once. Knows no conversation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit.history import History

from radixchat.chat_cli.paths import private_file

READ_LIMIT = 4 << 20
"""Bytes of the file's end that are read at start; older entries stay in the file."""


class EntryHistory(History):
    """The entries of a file, newest first.

    What cannot be read is skipped. What cannot be written is in this run's history only, and
    `warn` is told once.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        super().__init__()
        self._path = path
        self._warn = warn
        self._warned = False

    def load_history_strings(self) -> Iterable[str]:
        """The stored entries, newest first."""
        try:
            lines = _last_lines(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            self._warn_once(f"the input history cannot be read: {error}")
            return
        for line in reversed(lines):
            entry = _parse(line)
            if entry is not None:
                yield entry

    def store_string(self, string: str) -> None:
        """Append one entry."""
        try:
            private_file(self._path)
            _append(self._path, json.dumps(string).encode("ascii") + b"\n")
        except OSError as error:
            self._warn_once(f"the input history cannot be written: {error}")

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(text)


def _last_lines(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - READ_LIMIT)
        file.seek(start)
        lines = file.read().split(b"\n")
    return lines[1:] if start else lines


def _parse(line: bytes) -> str | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None  # a torn write of a crash
    return entry if isinstance(entry, str) else None


def _append(path: Path, line: bytes) -> None:
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            line = b"\n" + line  # an entry that a crash tore must not spoil this one
        os.write(fd, line)
    finally:
        os.close(fd)
