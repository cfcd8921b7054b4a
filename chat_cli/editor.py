"""Changes a text in the editor of the user's choice, in a file that only they can read.

Owns which editor that is, and the file. Knows no input line.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_USUAL = ("editor", "nano", "vi")


class EditorFailed(Exception):
    """There is no new text; says why."""


async def edited(text: str, terminal: IO[str] | None = None) -> str:
    """What the editor makes of `text`, without the newline that editors add.

    terminal: what the editor draws on; None: on standard output. Raises EditorFailed.
    """
    command = _command()
    with _file(text) as path:
        await _run([*command, str(path)], terminal)
        new = _read(path, shlex.join(command))
    return new if text.endswith("\n") else new.removesuffix("\n")


@contextlib.contextmanager
def _file(text: str) -> Iterator[Path]:
    """A file with this text; it is deleted afterwards. Raises EditorFailed."""
    try:
        # mkstemp makes the file with mode 0600. `.md`: what most editors know how to show.
        fd, name = tempfile.mkstemp(prefix="message-", suffix=".md")
    except OSError as error:
        raise EditorFailed(f"no file can be made for the editor: {error}") from error
    path = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        yield path
    except OSError as error:
        raise EditorFailed(f"the text cannot be edited: {error}") from error
    finally:
        path.unlink(missing_ok=True)


def _read(path: Path, editor: str) -> str:
    try:
        return path.read_bytes().decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise EditorFailed(f"{editor} left a text that is not UTF-8") from error


def _command() -> list[str]:
    """$VISUAL, $EDITOR, or what is usually there. Raises EditorFailed."""
    for variable in ("VISUAL", "EDITOR"):
        value = os.environ.get(variable, "")
        try:
            command = shlex.split(value)
        except ValueError as error:
            raise EditorFailed(f"{variable} is no command: {value} ({error})") from error
        if not command:
            continue
        if shutil.which(command[0]) is None:
            raise EditorFailed(f"the editor {command[0]} of {variable} cannot be found")
        return command
    for name in _USUAL:
        if shutil.which(name) is not None:
            return [name]
    raise EditorFailed("there is no editor; EDITOR says which one")


async def _run(command: list[str], terminal: IO[str] | None) -> None:
    process = await asyncio.create_subprocess_exec(*command, stdout=terminal)
    try:
        code = await process.wait()
    finally:
        if process.returncode is None:  # whoever waits is leaving
            process.terminate()
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        raise EditorFailed(f"{command[0]} failed ({how}); the text is as it was")
