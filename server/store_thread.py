"""`StoreThread`: a store and the one thread that it is used on. Knows no engine, no principal."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from radixchat.engine.errors import EngineStopped
from radixchat.server.store import Store

P = ParamSpec("P")
T = TypeVar("T")


class StoreThread:
    """An open store; `call` uses it."""

    def __init__(self, store: Store, thread: ThreadPoolExecutor) -> None:
        self.store = store
        self.thread = thread

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it on the store's thread. Raises EngineStopped once the store is closed."""
        loop = asyncio.get_running_loop()
        try:
            called = loop.run_in_executor(self.thread, functools.partial(function, *args, **kwargs))
        except RuntimeError as error:  # the thread has been shut down
            raise EngineStopped("the store is closed") from error
        return await called

    async def close(self) -> None:
        """Close the store, then end the thread; a second time does nothing. Raises StoreError."""
        try:
            await self.call(self.store.close)
        except EngineStopped:
            return
        finally:
            self.thread.shutdown()


@asynccontextmanager
async def open_store(path: Path | None) -> AsyncIterator[StoreThread]:
    """The store of that file, None: one in memory; closed at the end. Raises StoreError."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="database")
    loop = asyncio.get_running_loop()
    try:
        store = await loop.run_in_executor(thread, Store, path or Path(":memory:"))
    except BaseException:
        thread.shutdown()
        raise
    opened = StoreThread(store, thread)
    try:
        yield opened
    finally:
        await opened.close()
