"""A thread that nobody who leaves waits for."""

from __future__ import annotations

import asyncio
import os

import pytest

from radixchat.chat_cli.loading_thread import LoadingThread


def test_what_it_does_is_left_to_its_end() -> None:
    """The loop ends while it works; it is busy until the work is done."""
    thread = LoadingThread()
    reader, writer = os.pipe()

    async def leave() -> None:
        working = asyncio.create_task(thread.call(os.read, reader, 1))
        await asyncio.sleep(0)
        assert thread.is_busy
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    asyncio.run(leave())
    assert thread.is_busy
    os.write(writer, b"x")
    thread.close()

    with pytest.raises(RuntimeError, match="shutdown"):
        asyncio.run(thread.call(os.getpid))
    os.close(reader)
    os.close(writer)


def test_what_comes_of_it() -> None:
    """A value or an error, as of any call; then it is idle."""
    thread = LoadingThread()
    assert not thread.is_busy

    async def work() -> None:
        assert await thread.call(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await thread.call(divmod, 7, 0)
        assert not thread.is_busy

    asyncio.run(work())
    thread.close()
