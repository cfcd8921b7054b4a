"""A new file for what somebody writes out in a chat. Knows not what is in it."""

from __future__ import annotations

from pathlib import Path

from radixchat.server.protocol import InvalidRequest


def write_new_file(name: str, text: str) -> Path:
    """Write a file that was not there, for its owner only; its path. `~` is somebody's home.

    Raises StoreError where it is there already, or its folder is missing; InvalidRequest for
    whatever else prevents it. What went wrong leaves nothing behind.
    """
    from radixchat.server.new_file import new_file

    try:
        path = Path(name).expanduser()
        with new_file(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8", newline="")
    except (RuntimeError, ValueError) as error:  # no such user; a zero byte; no name at all
        raise InvalidRequest(f"{name!r} cannot be the name of a file") from error
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be written: {error.strerror}") from error
    return path
