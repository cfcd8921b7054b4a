"""A store on a thread of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from radixchat.engine.errors import EngineStopped, StoreError
from radixchat.server.store_thread import open_store


def test_it_is_used_on_one_thread_and_closed(tmp_path: Path) -> None:
    """Calls run there; afterwards the store takes none, and the thread is gone."""

    async def run() -> None:
        async with open_store(tmp_path / "s.db") as opened:
            assert await opened.call(opened.store.latest, principal="me") is None
            await opened.close()
            with pytest.raises(EngineStopped, match="closed"):
                await opened.call(opened.store.verify)
        assert not any(thread.is_alive() for thread in opened.thread._threads)

    asyncio.run(run())


def test_a_file_that_is_none(tmp_path: Path) -> None:
    """StoreError, and no thread is left."""

    async def run() -> None:
        with pytest.raises(StoreError, match="is a folder"):
            async with open_store(tmp_path):
                pass

    asyncio.run(run())
