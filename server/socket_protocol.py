"""uvicorn's WebSocket protocol, but for a peer that has stopped reading, or that has gone.

uvicorn sends nothing, not even a close frame, until the socket is writable; and closing a transport
waits for its buffer to be taken. A peer that reads nothing would keep its connection, and the
memory of its buffer, for as long as it likes. Here its close frame is queued behind what it has not
read, and a while later the connection is cut. Knows no application; `uvicorn.Config(ws=...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent


class SocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket connection of uvicorn; one that is refused is no fault of the app's."""

    async def send(self, message: ASGISendEvent) -> None:
        """As uvicorn's; a connection that is being closed is as good as gone."""
        if self.close_sent and message["type"] == "websocket.send":
            raise ClientDisconnected
        if message["type"] == "websocket.close":
            self.writable.set()  # a close frame waits for nobody
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True  # refused; uvicorn would log that nothing was answered
        if self.close_timer is not None:  # a close frame was sent: the peer has so long to answer
            self.close_timer.cancel()
            self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)

    def handle_parser_exception(self) -> None:
        """What came is no frame. Before the handshake is answered, no close frame can tell so."""
        if self.conn.close_sent is not None:
            super().handle_parser_exception()
            return
        self.disconnected = True  # until the transport says it: nothing is to be sent any more
        self.transport.abort()

    def keepalive_timeout(self) -> None:
        """The peer answered no ping: what it was sent it does not take any more."""
        super().keepalive_timeout()
        self.loop.call_later(self.close_timeout, self.transport.abort)
