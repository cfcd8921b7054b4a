"""Lines from a file descriptor, as they arrive, without holding up the event loop.

Owns the bytes read and not yet handed out. Knows no command and no conversation.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from radixchat.server.protocol import InvalidRequest

_CHUNK = 1 << 16
# More text than any context holds; an input without an end must not take all memory.
MAX_BYTES = 16 << 20


class InputLines:
    r"""Yields the lines of `fd` without their \n or \r\n, the last one also without one.

    Bytes that are not UTF-8 become U+FFFD, and `warn` is told in which line.
    """

    def __init__(self, fd: int, warn: Callable[[str], None]) -> None:
        self._fd = fd
        self._warn = warn
        self._buffer = bytearray()
        self._searched = 0
        self._ended = False
        self._count = 0

    def __aiter__(self) -> InputLines:
        return self

    async def __anext__(self) -> str:
        """The next line. Raises OSError; InvalidRequest for a line beyond MAX_BYTES."""
        while (end := self._buffer.find(b"\n", self._searched)) < 0 and not self._ended:
            if len(self._buffer) > MAX_BYTES:
                raise InvalidRequest(
                    f"line {self._count + 1} of standard input has more than {MAX_BYTES >> 20} MiB"
                )
            self._searched = len(self._buffer)
            await self._fill()
        if end < 0 and not self._buffer:
            raise StopAsyncIteration
        stop = len(self._buffer) if end < 0 else end
        line = bytes(self._buffer[:stop])
        del self._buffer[: stop + 1]
        self._searched = 0
        self._count += 1
        text = decode(line, f"line {self._count} of standard input", self._warn)
        return text.removesuffix("\r")

    async def _fill(self) -> None:
        await self._readable()
        data = os.read(self._fd, _CHUNK)
        self._buffer += data
        self._ended = not data

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        try:
            loop.add_reader(self._fd, ready.set_result, None)
        except PermissionError:
            return  # a regular file or /dev/null: epoll refuses it, and reading never waits
        try:
            await ready
        finally:
            loop.remove_reader(self._fd)


def decode(data: bytes, source: str, warn: Callable[[str], None]) -> str:
    """`data` as text, without a byte order mark; bytes that are not UTF-8 become U+FFFD."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        warn(f"{source} is not UTF-8 (byte {error.start + 1}); what cannot be read became U+FFFD")
        text = data.decode("utf-8", "replace")
    return text.removeprefix("\ufeff")
