"""What the surroundings say: the terminal, and the environment variables that are meant for us.

A page that is quoted tells no secret: of a variable whose value may be one, or is somebody's own
words, only that it is set.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

from rich.console import Console

from radixchat.chat_cli.checkup import Problem, Section, shown_path
from radixchat.chat_cli.flag import PREFIX
from radixchat.chat_cli.server_address import shown_url
from radixchat.chat_cli.variables import misspelt
from radixchat.server.protocol import ConfigError

# Besides numbers and switches, what can be quoted: words of ours, and paths.
_PATHS = ("DB", "MODEL", "CONFIG_DIR", "DATA_DIR", "STATE_DIR", "CACHE_DIR")
_WORDS = ("DEVICE", "WEIGHTS", "KV", "EVICTION", "TRUNCATION")
_SWITCHES = ("true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "1", "0", "")
_FOLDERS = tuple(f"{PREFIX}{name}" for name in _PATHS if name.endswith("_DIR"))


def terminal() -> Section:
    """Who would show a chat, and how."""
    console = Console()
    streams = ("stdin", "stdout", "stderr")
    ours = [name for name in streams if (s := getattr(sys, name)) is not None and s.isatty()]
    size = shutil.get_terminal_size()
    told = {name: os.environ[name] for name in ("NO_COLOR", "FORCE_COLOR") if name in os.environ}
    encoding = getattr(sys.stdout, "encoding", None) or "none"
    facts = {
        "TERM": os.environ.get("TERM", "not set"),
        "is a terminal": ", ".join(ours) or "no stream",
        "size": f"{size.columns} columns, {size.lines} lines",
        "colours": console.color_system or "none",
        **told,
        "encoding": encoding,
    }
    problems = []
    if ours and encoding.lower().replace("-", "") not in ("utf8", "utf8sig"):
        what = f"standard output is written as {encoding}, which cannot say every answer"
        problems.append(Problem(what, "a locale of UTF-8: LC_ALL=C.UTF-8"))
    return Section("terminal", facts, problems)


def variables(known: Collection[str]) -> Section:
    """Those that begin with ours. known: what flags and settings have."""
    given = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    facts = {name: _shown(name.removeprefix(PREFIX), given[name]) for name in sorted(given)}
    problems = [
        Problem(f"{name} is no flag's variable", f"{near} is one")
        for name, near in misspelt(given, {*known, *_FOLDERS})
    ]
    return Section("variables", facts or {"RADIXCHAT_*": "none is set"}, problems)


def _shown(name: str, value: str) -> str:
    if name in _PATHS:
        return shown_path(Path(value))
    if name == "URL":
        try:
            return shown_url(value) if value else ""
        except ConfigError:
            return "set, and not valid"
    plain = value.lower() in _SWITCHES or value.replace(".", "", 1).isdecimal()
    if "KEY" not in name and (name in _WORDS or plain):
        return value
    return "set"
