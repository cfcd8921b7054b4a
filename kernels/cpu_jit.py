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
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    _CacheLocator,
    _SourceFileBackedLocatorMixin,
)

SOURCES = "cpu_*.py"
# A file in the folder: it has everything, so that it may be read-only, as in an image.
COMPLETE = "complete"


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
    if cache_folder() is not None:
        compiled._cache = _KernelCache(function)  # as `cache=True` does with Numba's own


class _KernelLocator(_SourceFileBackedLocatorMixin, _CacheLocator):
    """Where Numba keeps a kernel: all in one folder, which exists, and need not be writable."""

    def __init__(self, function: Callable[..., Any], path: str) -> None:
        self._py_file = path
        self._lineno = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        """The folder."""
        return str(cache_folder())

    def ensure_cache_path(self) -> None:
        """Numba would look for another folder if it could not write to this one."""


class _KernelFiles(CompileResultCacheImpl):
    _locator_classes = (_KernelLocator,)


class _KernelCache(FunctionCache):
    """What one function was compiled to, in Numba's files; without them it is compiled again.

    A file that a power cut has damaged, or a full disk, is said and stops nobody: Numba would
    raise from the first call of a kernel, at every start.
    """

    _impl_class = _KernelFiles

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was kept for the signature, None if nothing was."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # noqa: BLE001 - pickle and LLVM raise many kinds
            place = self.cache_path
            warnings.warn(f"a kernel kept in {place} cannot be read: {error!r}", stacklevel=1)
            with contextlib.suppress(OSError):
                self.flush()  # else what is damaged is found again
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for the signature."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            place = self.cache_path
            warnings.warn(f"no kernel can be kept in {place}: {error.strerror}", stacklevel=1)


@functools.cache
def cache_folder() -> Path | None:
    """Where compiled kernels are kept: beside their sources or in the user's cache; or nowhere.

    It can be written to, or is complete.
    """
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK) or os.access(folder / COMPLETE, os.R_OK):
            return folder
    return None


def complete_folder() -> Path | None:
    """The folder, if it has every kernel; nothing is made."""
    found = (folder for folder in _folders() if os.access(folder / COMPLETE, os.R_OK))
    return next(found, None)


def _folders() -> list[Path]:
    """Where compiled kernels may be kept, the best place first."""
    places = [Path(__file__).resolve().parent / "__pycache__"]
    with contextlib.suppress(RuntimeError):  # a user without a home
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        places.append(Path(home) / "radixchat")
    return [place / f"cpu-kernels-{_fingerprint()}" for place in places]


def _fingerprint() -> str:
    target = (
        numba.__version__, numba.config.CPU_NAME, numba.config.CPU_FEATURES,
        binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(),
    )  # fmt: skip
    digest = hashlib.blake2b(repr(target).encode(), digest_size=8)
    for path in sorted(Path(__file__).resolve().parent.glob(SOURCES)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
