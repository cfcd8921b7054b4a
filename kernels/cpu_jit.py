"""How CPU kernels are compiled: without the GIL, and kept on disk between runs.

Numba notices a change of the file that defines a cached function, not of those it calls; so the
folder is named for a fingerprint of all the CPU kernels' sources, and of the processor. Knows no
kernel.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from numba.core.caching import FunctionCache

SOURCES = "cpu_*.py"


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function that runs inside a step, called from other kernels or from Python."""
    return _compile(function, parallel=False)


def parallel_jit(function: Callable[..., Any]) -> Any:
    """Compile a function that shares its `prange` loops out among Numba's threads."""
    return _compile(function, parallel=True)


def _compile(function: Callable[..., Any], parallel: bool) -> Any:
    # No `fastmath`: an order of additions that the compiler chooses is the end of exactness.
    compiled = numba.njit(nogil=True, parallel=parallel)(function)
    keep(compiled, function)
    return compiled


def keep(compiled: Any, function: Callable[..., Any]) -> None:
    """Have Numba keep on disk what it will compile of a function, if there is a folder for it."""
    folder = cache_folder()
    if folder is None:
        return
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        # As `cache=True` does, but for what happens to files.
        compiled._cache = _KernelCache(FunctionCache(function))
    finally:
        numba.config.CACHE_DIR = before


class _KernelCache:
    """What one function was compiled to, in Numba's files; without them it is compiled again.

    A file that a power cut has damaged, or a full disk, is said and stops nobody: Numba would
    raise from the first call of a kernel, at every start.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def load_overload(self, signature: Any, context: Any) -> Any:
        """What was kept for the signature, None if nothing was."""
        try:
            return self._cache.load_overload(signature, context)
        except Exception as error:  # noqa: BLE001 - pickle and LLVM raise many kinds
            folder = self._cache.cache_path
            warnings.warn(f"a kernel kept in {folder} cannot be read: {error!r}", stacklevel=1)
            with contextlib.suppress(OSError):
                self._cache.flush()  # else what is damaged is found again
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled for the signature."""
        try:
            self._cache.save_overload(signature, compiled)
        except OSError as error:
            folder = self._cache.cache_path
            warnings.warn(f"no kernel can be kept in {folder}: {error.strerror}", stacklevel=1)


@functools.cache
def cache_folder() -> Path | None:
    """Where compiled kernels are kept: beside their sources or in the user's cache; or nowhere."""
    name = f"cpu-kernels-{_fingerprint()}"
    places = [Path(__file__).resolve().parent / "__pycache__"]
    with contextlib.suppress(RuntimeError):  # a user without a home
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        places.append(Path(home) / "radixchat")
    for place in places:
        folder = place / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None


def _fingerprint() -> str:
    processor = f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
    digest = hashlib.blake2b(f"{numba.__version__} {processor}".encode(), digest_size=8)
    for path in sorted(Path(__file__).resolve().parent.glob(SOURCES)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
