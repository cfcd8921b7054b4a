"""How CPU kernels are compiled: without the GIL, and kept on disk between runs.

Numba notices a change of the file that defines a cached function, not of those it calls; so the
folder is named for a fingerprint of all the CPU kernels' sources. Knows no kernel.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba

SOURCES = "cpu_*.py"


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function that runs inside a step, called from other kernels or from Python."""
    return _compile(function, parallel=False)


def parallel_jit(function: Callable[..., Any]) -> Any:
    """Compile a function that shares its `prange` loops out among Numba's threads."""
    return _compile(function, parallel=True)


def _compile(function: Callable[..., Any], parallel: bool) -> Any:
    # No `fastmath`: an order of additions that the compiler chooses is the end of exactness.
    with kept() as options:
        return numba.njit(nogil=True, parallel=parallel, **options)(function)


@contextmanager
def kept() -> Iterator[dict[str, bool]]:
    """What to tell Numba, inside the block, for a function that is kept on disk."""
    folder = cache_folder()
    if folder is None:
        yield {}
        return
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield {"cache": True}
    finally:
        numba.config.CACHE_DIR = before


@functools.cache
def cache_folder() -> Path | None:
    """Where compiled kernels are kept: beside their sources or in the user's cache; or nowhere."""
    name = f"cpu-kernels-{_fingerprint()}"
    here = Path(__file__).resolve().parent / "__pycache__"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "radixchat"
    for folder in (here / name, home / name):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None


def _fingerprint() -> str:
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for path in sorted(Path(__file__).resolve().parent.glob(SOURCES)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
