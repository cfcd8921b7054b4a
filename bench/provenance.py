"""Where a measurement comes from: the commit of the source, the kind of machine, the date.

Names no host and no user: a result may be shown to anybody.
"""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def facts(bench: str, load: float, **more: object) -> dict[str, object]:
    """What every result begins with, and what a benchmark adds. load: the average before it."""
    return {
        "bench": bench,
        "version": installed_version(),
        "date": today(),
        "commit": commit(),
        "machine": machine(),
        "load": round(load, 2),
        **more,
    }


def installed_version() -> str:
    """radixchat's version, "unknown" where it runs from a checkout and is not installed."""
    try:
        return version("radixchat")
    except PackageNotFoundError:
        return "unknown"


def commit() -> str:
    """The checkout's commit, "unknown" outside of one."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    root = Path(__file__).resolve().parent
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError:  # no git on this machine
        return "unknown"
    return done.stdout.strip() or "unknown"


def today() -> str:
    """The date, in UTC, for example "2026-01-31"."""
    return datetime.now(UTC).date().isoformat()


def machine() -> str:
    """System, processor, cores and Python, for example "Linux x86_64, 2 cores, Python 3.12.3"."""
    processor = platform.machine() or "unknown processor"
    cores = f"{os.cpu_count() or '?'} cores"
    return f"{platform.system()} {processor}, {cores}, Python {platform.python_version()}"
