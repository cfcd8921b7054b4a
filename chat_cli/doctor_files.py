"""What of a user's files is there, and whether it is as it should be. Changes none of them.

Configuration, conversations, input history, the disk cache.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from radixchat.chat_cli.checkup import Problem, Section, shown_bytes, shown_path
from radixchat.server.protocol import RadixChatError

# What a look of a second or two can check; a bigger file is checked with --deep.
_QUICK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Files:
    """Where they are. config_error: what is wrong with what is configured, if something is."""

    config: Path
    database: Path
    history: Path
    disk_cache: Path
    config_error: str | None = None


def files(where: Files, *, deep: bool) -> Section:
    """deep: also what takes long to check."""
    facts, problems = dict[str, str](), list[Problem]()
    facts["configuration"] = _described(where.config)
    if where.config_error is not None:
        help_ = f"correct the variable, or the key in {shown_path(where.config)}"
        problems.append(Problem(f"a chat would be refused: {where.config_error}", help_))
    facts["database"] = _described(where.database)
    facts["history"] = _described(where.history)
    facts["disk cache"], trouble = _disk_cache(where.disk_cache)
    problems += trouble
    if where.database.exists():
        found, wrong = _store(where.database, deep=deep)
        facts.update(found)
        problems += wrong
    problems += _open_to_others((where.database, where.history))
    problems += _not_writable(where.database.parent, "RADIXCHAT_DATA_DIR, --db")
    if where.history.parent != where.database.parent:
        problems += _not_writable(where.history.parent, "RADIXCHAT_STATE_DIR")
    return Section("files", facts, problems)


def _store(path: Path, *, deep: bool) -> tuple[Mapping[str, str], list[Problem]]:
    """What is in the database, and what is wrong with it."""
    from radixchat.server.store_look import look

    verifies = deep or path.stat().st_size <= _QUICK_BYTES
    try:
        found = look(path, verifies=verifies)
    except RadixChatError as error:
        help_ = "`radixchat sessions backup` made a copy? put it there; or name another with --db"
        return {"schema": "cannot be read"}, [Problem(str(error), help_)]
    facts = {"schema": f"version {found.version}", "conversations": f"{found.conversations:,}"}
    problems = []
    if found.version > found.newest:
        what = f"{shown_path(path)} was written by a newer radixchat"
        problems.append(Problem(what, "pip install --upgrade radixchat, or another file: --db"))
    elif found.version < found.newest:
        facts["schema"] += f"; brought up to {found.newest} when it is used"
    if found.problems is None:
        facts["verified"] = "no" if verifies else "no, it is big: --deep does"
        return facts, problems
    facts["verified"] = f"{len(found.problems)} problems" if found.problems else "all is well"
    if found.problems:
        what = f"the database: {found.problems[0]}"
        if (others := len(found.problems) - 1) > 0:
            what += f", and {others} more"
        help_ = "`radixchat sessions verify` lists them; a copy of `sessions backup` has the rest"
        problems.append(Problem(what, help_))
    return facts, problems


def _disk_cache(folder: Path) -> tuple[str, list[Problem]]:
    """What is kept of what was computed."""
    from radixchat.engine.tiers.disk_administration import disk_folders

    try:
        found = disk_folders(folder)
    except RadixChatError as error:
        return shown_path(folder), [Problem(str(error), "another folder: RADIXCHAT_CACHE_DIR")]
    pages = sum(kind.pages for kind in found.kinds)
    described = f"{shown_path(folder)}, {pages:,} pages, {shown_bytes(found.bytes)}"
    if found.problem is None:
        return described if found.bytes else f"{shown_path(folder)}, empty", []
    what = f"the disk cache cannot be read: {found.problem}"
    return described, [Problem(what, "`radixchat cache clear` begins it anew")]


def _described(path: Path) -> str:
    try:
        status = path.stat()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return f"{shown_path(path)}, {'not there' if missing else error.strerror}"
    mode = stat.S_IMODE(status.st_mode)
    return f"{shown_path(path)}, {shown_bytes(status.st_size)}, mode {mode:o}"


def _open_to_others(paths: tuple[Path, ...]) -> Iterator[Problem]:
    """What was said and typed is private."""
    for path in paths:
        if path.is_file() and path.stat().st_mode & 0o077:
            yield Problem(f"others can read {shown_path(path)}", f"chmod 600 {shown_path(path)}")


def _not_writable(folder: Path, moved_by: str) -> Iterator[Problem]:
    nearest = next((f for f in (folder, *folder.parents) if f.exists()), folder)
    if not os.access(nearest, os.W_OK | os.X_OK):
        yield Problem(
            f"nothing can be written to {shown_path(folder)}",
            f"make {shown_path(nearest)} yours, or move it: {moved_by}",
        )
