"""What of the software is there: versions of radixchat, of Python, of what it stands on.

Imports none of it: what cannot be imported is what is looked for.
"""

from __future__ import annotations

import contextlib
import platform
import re
import sqlite3
import subprocess
from importlib import metadata
from pathlib import Path

from radixchat.chat_cli.checkup import Problem, Section

_NAME = "radixchat"
# What is worth knowing where it is there, whatever an older installation says it requires.
_BESIDE = ("numba", "triton", "pyperclip", "opentelemetry-sdk")
_GIT_SECONDS = 2.0


def software() -> Section:
    """Versions; a package that is required and is not there is a problem."""
    found, missing = dict[str, str](), list[str]()
    for name in _required():
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
    for name in _BESIDE:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.setdefault(name, metadata.version(name))
    facts = {
        "radixchat": _own_version(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "SQLite": sqlite3.sqlite_version,
        "packages": ", ".join(f"{name} {version}" for name, version in found.items()),
    }
    if not missing:
        return Section("software", facts)
    facts["missing"] = ", ".join(missing)
    one = "is" if len(missing) == 1 else "are"
    problem = Problem(
        f"{', '.join(missing)} {one} not installed", f"pip install {' '.join(missing)}"
    )
    return Section("software", facts, (problem,))


def _required() -> list[str]:
    """The distributions that radixchat requires here, as its own metadata names them."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        wanted = metadata.requires(_NAME) or []
        here = [w for w in wanted if "extra ==" not in w and _is_for(w, platform.system())]
        return [re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in here]
    return []


def _is_for(requirement: str, system: str) -> bool:
    """Whether a requirement's marker, if it has one, admits this system; we use one kind only."""
    _, _, marker = requirement.partition(";")
    return "sys_platform" not in marker or "linux" not in marker or system == "Linux"


def _own_version() -> str:
    version = "not installed, from a checkout"
    with contextlib.suppress(metadata.PackageNotFoundError):
        version = metadata.version(_NAME)
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():  # else the commit would be somebody else's
        return version
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, check=True, timeout=_GIT_SECONDS
        )
        version += f", commit {done.stdout.strip()}"
    return version
