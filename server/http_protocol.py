"""uvicorn's HTTP protocol, with bounds on what one connection costs: bytes, time, and how many.

uvicorn with httptools has none of them: header after header, before the body or after it, would
fill the memory; one that sends nothing, or takes nothing of its answer, would keep its connection
for ever. Knows no app: a body's size and time while somebody waits for it are `body.py`'s.

    connected   turned away with 503 where too many are
    head        max_header_bytes, header_seconds from the connection or from its first byte
    body        so many bytes as frame the largest body; once it is answered, body_seconds
    answer      closed when for stalled_seconds nothing of it is taken
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from radixchat.server.api_error import ApiError
from radixchat.server.limits import Limits

_COLON_AND_END = len(": \r\n")
# A chunk's length and ends of line, of chunks that are not absurdly small.
_FRAMING = 2
# Closed at once while its client still sends, a connection would be reset, and the answer lost.
_LINGER_SECONDS = 1.0
_RETRY_MS = 1000


class HttpProtocol(HttpToolsProtocol):
    """One connection, until it becomes a WebSocket."""

    limits = Limits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_head = False
        self._is_between = True
        self._is_over = False  # what comes is dropped
        self._received = 0  # of this request, as it came
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None

    # uvicorn narrows asyncio's signature, and this one follows it.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A head is to come, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.open_connections:
            self._turn_away()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing comes any more."""
        self._expect_nothing()
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count, and take it unless there is too much."""
        if self._is_over:
            return
        if self._is_between:
            self._expect_head()
        self._received += len(data)
        super().data_received(data)
        if self._in_head and self._received > self.limits.max_header_bytes:
            self._refuse("431 Request Header Fields Too Large")
        elif self._received > self._max_received:
            self._drop_the_rest()

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
        self._expect_nothing()
        self._is_between, self._received = True, 0
        if self.cycle is not None and self.cycle.response_complete:
            # uvicorn's own timer began with the answer and ended with the next byte.
            self._expect(self.timeout_keep_alive)

    def on_response_complete(self) -> None:
        """The rest of a request that was answered before its end has so long to come."""
        is_ahead = self.cycle.more_body and not self.pipeline and not self._is_over
        super().on_response_complete()
        if is_ahead:
            self._expect(self.limits.body_seconds)
        self._watch_reader()

    def handle_websocket_upgrade(self) -> None:
        """From here on the connection is another protocol's."""
        self._expect_nothing()
        self._stop_watching()
        self._received = 0
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        """The client is behind; nothing more is written until it has caught up."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """It has."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_watching()

    def timeout_keep_alive_handler(self) -> None:
        """No request came for long."""
        self._close()

    @property
    def _max_received(self) -> int:
        return self.limits.max_header_bytes + _FRAMING * self.limits.max_message_bytes

    def _expect_head(self) -> None:
        self._in_head, self._is_between, self._received = True, False, 0
        self._expect(self.limits.header_seconds)

    def _expect(self, seconds: float) -> None:
        """Close the connection unless what is to come has come by then."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._close)

    def _expect_nothing(self) -> None:
        self._in_head = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn_away(self) -> None:
        limit = self.limits.open_connections
        error = ApiError(
            503,
            "too_many_connections",
            f"{limit} connections are open, which is all that may be",
            details={"limit": limit, "retry_after_ms": _RETRY_MS},
        )
        body = json.dumps(error.body()) + "\n"
        headers = {"content-type": "application/json", "content-length": len(body), **error.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n{lines}\r\n"
        self.transport.write((head + body).encode())
        self._drop_the_rest()

    def _refuse(self, status: str) -> None:
        if not self.transport.is_closing():
            head = f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            self.transport.write(head.encode())
            self._close()

    def _drop_the_rest(self) -> None:
        self._is_over = True
        self._expect(_LINGER_SECONDS)

    def _close(self) -> None:
        self._expect_nothing()
        self.transport.close()
        self._watch_reader()

    def _watch_reader(self) -> None:
        """Cut the connection when what it has to send is not taken; a close waits for that."""
        if self._watch is None and self.transport.get_write_buffer_size():
            self._look_again(None)

    def _look_again(self, waiting_before: int | None) -> None:
        waiting = self.transport.get_write_buffer_size()
        if not waiting:
            self._watch = None
        elif waiting_before is not None and waiting >= waiting_before:
            self.transport.abort()
        else:
            seconds = self.limits.stalled_seconds
            self._watch = self.loop.call_later(seconds, self._look_again, waiting)

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None


def http_protocol(limits: Limits) -> type[HttpProtocol]:
    """The class for uvicorn's `http`, with these limits."""
    return type("HttpProtocol", (HttpProtocol,), {"limits": limits})
