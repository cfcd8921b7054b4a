"""A new file with private content: readable by its owner only, whole or not there at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from radixchat.engine.errors import StoreError


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """The path of an empty file (0600) that has its own name once the block is through.

    Then it is on the disk. Raises StoreError where there is no name or it is taken, at the end too,
    or the folder is missing; OSError for whatever else prevents it. What went wrong leaves nothing
    behind.
    """
    if not path.name:
        raise StoreError(f"{path} is a folder; name a new file in it")
    unfinished = path.with_name(f"{path.name}.unfinished-{secrets.token_hex(4)}")
    try:
        if os.path.lexists(path):
            raise FileExistsError(path)
        os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        yield unfinished
        _flush(unfinished)
        _name(unfinished, path)
        _flush(path.absolute().parent)
    except FileExistsError:
        raise StoreError(f"{path} exists already; name a new file") from None
    except FileNotFoundError as error:
        raise StoreError(f"{path} cannot be written: its folder is missing") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _name(unfinished: Path, path: Path) -> None:
    """Give a file its name, unless that is taken: then FileExistsError."""
    try:
        path.hardlink_to(unfinished)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        unfinished.rename(path)


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
