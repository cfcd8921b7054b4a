"""The HTTP protocol of the listener, with bounds on a request's head: its bytes and its time.

uvicorn bounds neither with httptools: a client that sends header after header would fill the
memory, and one that sends nothing at all would keep its connection for ever. Knows no app.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from radixchat.server.limits import Limits

_COLON_AND_END = len(": \r\n")


class BoundedHead(HttpToolsProtocol):
    """Answers 431 to a head that is too long, closes on one that does not come."""

    limits = Limits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_head = False
        self._is_between = True
        self._received = 0
        self._timer: asyncio.TimerHandle | None = None

    # uvicorn narrows asyncio's signature, and this one follows it.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A head is to come."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """None comes any more."""
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count, as long as the head is not whole."""
        if self._is_between:
            self._expect_head()
        super().data_received(data)
        if self._in_head:
            self._received += len(data)
            if self._received > self.limits.max_header_bytes:
                self._refuse("431 Request Header Fields Too Large")

    def on_headers_complete(self) -> None:
        """The head is whole: hand it on, unless it is too long or no text."""
        self._expect_nothing()
        size = len(self.url) + sum(
            len(name) + len(value) + _COLON_AND_END for name, value in self.headers
        )
        if size > self.limits.max_header_bytes:
            raise ValueError("the head is too long")
        if not self.url.isascii():
            raise ValueError("the address is not ASCII")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """After the body another head may come."""
        super().on_message_complete()
        self._is_between = True

    def _expect_head(self) -> None:
        self._expect_nothing()
        self._in_head, self._is_between, self._received = True, False, 0
        self._timer = self.loop.call_later(self.limits.header_seconds, self._close)

    def _expect_nothing(self) -> None:
        self._in_head = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: str) -> None:
        if not self.transport.is_closing():
            head = f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            self.transport.write(head.encode())
            self._close()

    def _close(self) -> None:
        self._expect_nothing()
        self.transport.close()


def bounded_head(limits: Limits) -> type[BoundedHead]:
    """The class for uvicorn's `http`, with these limits."""
    return type("BoundedHead", (BoundedHead,), {"limits": limits})
