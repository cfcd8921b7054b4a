"""A thread for work that takes long and that nothing can stop. Knows no work.

asyncio's own threads are waited for when the loop ends; nobody who leaves waits for this one.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class LoadingThread:
    """One thing after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="loading")
        self._last: Future[Any] | None = None

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it there. Whoever is cancelled meanwhile leaves it to its end."""
        called = self._thread.submit(functools.partial(function, *args, **kwargs))
        self._last = called
        return await asyncio.wrap_future(called)

    @property
    def is_busy(self) -> bool:
        """Whether something is being done: the process cannot end but by `os._exit`."""
        return self._last is not None and not self._last.done()

    def close(self) -> None:
        """Take nothing more; what is being done is not waited for."""
        self._thread.shutdown(wait=False)
