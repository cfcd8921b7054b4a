"""A text file that is put before a message: `Attachment`. Knows no conversation."""

from __future__ import annotations

import os
import re
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

from radixchat.chat_cli.control_characters import neutral_line
from radixchat.server.protocol import InvalidRequest

MAX_BYTES = 4 << 20
"""More text than any context holds; a log that somebody picked by mistake must not be sent."""
_LEAST_FENCE = 3


@dataclass(frozen=True, slots=True)
class Attachment:
    """name: of the file, without its folder."""

    name: str
    text: str

    def __str__(self) -> str:
        """`attached notes.txt (1,234 characters)`."""
        return f"attached {self.name} ({len(self.text):,} characters)"

    @property
    def block(self) -> str:
        """As it stands in the message: its name, and between fences that it cannot close."""
        longest = max(map(len, re.findall("`+", self.text)), default=0)
        fence = "`" * max(_LEAST_FENCE, longest + 1)
        end = "" if self.text.endswith("\n") else "\n"
        return f"{self.name}:\n{fence}\n{self.text}{end}{fence}"

    @classmethod
    def read(cls, name: str) -> Attachment:
        """The file of that name, which may be quoted as in a shell. Raises InvalidRequest."""
        path = _path(name)
        shown = neutral_line(str(path))
        try:
            data = _bytes(path)
        except FileNotFoundError as error:
            raise InvalidRequest(f"there is no file {shown}") from error
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InvalidRequest(f"{shown} cannot be read: {reason}") from error
        if len(data) > MAX_BYTES:
            raise InvalidRequest(f"{shown} has more than {MAX_BYTES >> 20} MiB")
        if not data:
            raise InvalidRequest(f"{shown} is empty")
        if b"\0" in data:
            raise InvalidRequest(f"{shown} is no text, it has null bytes")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidRequest(
                f"{shown} is no text in UTF-8: byte {data[error.start]:#04x} at {error.start:,}"
            ) from error
        return cls(neutral_line(path.name), text.replace("\r\n", "\n"))


def _path(name: str) -> Path:
    """The file that is meant: as it is written, or else without a shell's quotes."""
    path = _expanded(name)
    try:
        if os.path.lexists(path):
            return path
        words = shlex.split(name)
    except ValueError:  # a NUL in the name; a quote that nothing closes
        return path
    return _expanded(words[0]) if len(words) == 1 and words[0] != name else path


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # no such user
        raise InvalidRequest(f"{neutral_line(name)}: {error}") from error


def _bytes(path: Path) -> bytes:
    with open(path, "rb", opener=_opened) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no ordinary file")
        return file.read(MAX_BYTES + 1)


def _opened(path: str, flags: int) -> int:
    # Without O_NONBLOCK, a FIFO that nobody writes to would be waited for.
    return os.open(path, flags | os.O_NONBLOCK)
