"""`HttpConnection`: one keep-alive connection to a server, with h11; a request at a time.

Owns connecting again where the server hung up between two requests. Knows no path and no JSON. Its
own code is lean on purpose: it shares the machine with what it measures.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

from radixchat.bench.serve_answer import AskFailed

_READ_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is. path: in front of everything that is asked, "" or "/v1"."""

    host: str
    port: int
    is_secure: bool
    path: str

    @classmethod
    def of(cls, url: str) -> Address:
        """Read http://host:port/v1; the "/v1" may be missing. Raises ValueError, with the value."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no URL; one is http://127.0.0.1:8000")
        is_secure = parts.scheme == "https"
        path = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.hostname, parts.port or (443 if is_secure else 80), is_secure, path)

    @property
    def authority(self) -> str:
        """Host and port, as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def websocket_url(self, path: str) -> str:
        """The same server, for a WebSocket."""
        return f"{'wss' if self.is_secure else 'ws'}://{self.authority}{self.path}{path}"


class HttpConnection:
    """To one server, opened when it is first used."""

    def __init__(self, address: Address, key: str | None) -> None:
        self._address = address
        self._headers = [("Host", address.authority), ("Content-Type", "application/json")]
        if key is not None:
            self._headers.append(("Authorization", f"Bearer {key}"))
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._protocol = h11.Connection(h11.CLIENT)

    async def request(
        self, method: str, path: str, body: bytes
    ) -> tuple[int, AsyncGenerator[bytes, None]]:
        """Send it; the status, and the body as it arrives, to be read to its end or closed.

        Raises AskFailed where the server cannot be reached or does not speak HTTP.
        """
        is_fresh = self._writer is None
        try:
            status = await self._send(method, path, body)
        except (OSError, AskFailed):
            await self.close()
            if is_fresh:
                raise
            status = await self._send(method, path, body)  # it had hung up; nothing was answered
        return status, self._body()

    async def close(self) -> None:
        """Hang up."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):  # it was broken before
                await writer.wait_closed()

    async def _send(self, method: str, path: str, body: bytes) -> int:
        if self._writer is None:
            await self._open()
        assert self._writer is not None
        headers = [*self._headers, ("Content-Length", str(len(body)))]
        request = h11.Request(method=method, target=self._address.path + path, headers=headers)
        data = [self._protocol.send(request), self._protocol.send(h11.Data(data=body))]
        data.append(self._protocol.send(h11.EndOfMessage()))
        self._writer.write(b"".join(part for part in data if part))
        await self._writer.drain()
        event = await self._next()
        while isinstance(event, h11.InformationalResponse):
            event = await self._next()
        if not isinstance(event, h11.Response):
            raise AskFailed(f"{self._address.authority} hung up without an answer")
        return event.status_code

    async def _open(self) -> None:
        context = ssl.create_default_context() if self._address.is_secure else None
        try:
            self._reader, self._writer = await asyncio.open_connection(
                self._address.host, self._address.port, ssl=context
            )
        except OSError as error:
            raise AskFailed(f"{self._address.authority} cannot be reached: {error}") from error
        self._protocol = h11.Connection(h11.CLIENT)

    async def _body(self) -> AsyncGenerator[bytes, None]:
        complete = False
        try:
            while isinstance(event := await self._next(), h11.Data):
                yield bytes(event.data)
            complete = isinstance(event, h11.EndOfMessage)
            if not complete:
                raise AskFailed(f"{self._address.authority} hung up in the middle of an answer")
        finally:
            if complete and self._protocol.our_state is h11.DONE is self._protocol.their_state:
                self._protocol.start_next_cycle()
            else:
                await self.close()

    async def _next(self) -> h11.Event | type[h11.PAUSED]:
        assert self._reader is not None
        try:
            while (event := self._protocol.next_event()) is h11.NEED_DATA:
                self._protocol.receive_data(await self._reader.read(_READ_BYTES))
        except h11.RemoteProtocolError as error:
            raise AskFailed(f"{self._address.authority} broke off: {error}") from error
        assert not isinstance(event, type) or event is h11.PAUSED
        return event
