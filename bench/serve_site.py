"""`Site`: a server under load, as `bench serve` found it; and `Arm`: one way of loading it.

Owns what is asked of a server before anything is measured: its model's name, how it makes tokens,
and whether it takes options that OpenAI does not have. Knows no load.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from radixchat.bench.serve_answer import AskFailed, Client
from radixchat.bench.serve_chat import ChatClient
from radixchat.bench.serve_http import Address, HttpConnection
from radixchat.bench.serve_load import Message
from radixchat.bench.serve_socket import SocketClient
from radixchat.bench.serve_tokens import LocalTokens, TokenSource, find_tokens

HTTP, WEBSOCKET = TRANSPORTS = ("http", "websocket")


@dataclass(frozen=True, slots=True)
class Site:
    """A server. front: tokens at the beginning of a prompt that it may have from somebody else: the
    template's, and the number's. connection: for questions between the measurements."""

    url: str
    key: str | None
    model: str
    tokens: TokenSource
    front: int
    connection: HttpConnection

    @classmethod
    async def find(
        cls, url: str, key: str | None, model: str | None, tokenizer: str | None, *, is_fresh: bool
    ) -> Site:
        """Ask a server what it is; to be closed. Raises AskFailed, and ModelLoadError for the
        tokenizer.

        model: the name to ask for; None is the first that it lists. tokenizer: an installed model;
        None asks the server. is_fresh: nobody else has asked it anything.
        """
        connection = HttpConnection(Address.of(url), key)
        try:
            name = model or await _first_model(connection)
            tokens: TokenSource
            if tokenizer is not None:
                tokens = LocalTokens(tokenizer)
            else:
                tokens = await find_tokens(connection, name)
            front = 0 if is_fresh else await _front(tokens)
        except BaseException:
            await connection.close()
            raise
        return cls(url, key, name, tokens, front, connection)

    async def close(self) -> None:
        """Hang up."""
        await self.connection.close()

    def client(self, transport: str, *, is_plain: bool) -> Client:
        """A new user of it."""
        address = Address.of(self.url)
        if transport == WEBSOCKET:
            return SocketClient(address, self.key, self.model, is_plain=is_plain)
        connection = HttpConnection(address, self.key)
        return ChatClient(connection, self.model, is_plain=is_plain)


@dataclass(frozen=True, slots=True)
class Arm:
    """name: of the column. is_plain: only OpenAI's own options, so answers may be short."""

    name: str
    site: Site
    transport: str
    is_plain: bool = False

    def client(self) -> Client:
        """A new user of it."""
        return self.site.client(self.transport, is_plain=self.is_plain)

    def about(self) -> dict[str, object]:
        """For the JSON line; a URL may be of a host that is nobody's business."""
        return {
            "transport": self.transport,
            "model": self.site.model,
            "tokens": self.site.tokens.name,
            "is_plain": self.is_plain,
        }


async def _first_model(connection: HttpConnection) -> str:
    status, data = await connection.request("GET", "/v1/models", b"")
    text = b"".join([part async for part in data]).decode(errors="replace")
    try:
        models = json.loads(text)["data"]
        return str(models[0]["id"])
    except (ValueError, LookupError, TypeError) as error:
        raise AskFailed(f"/v1/models answers {status}: {text[:200]!r}") from error


async def _front(tokens: TokenSource) -> int:
    """Tokens that two prompts share which differ after the number."""
    ids = [
        await tokens.prompt((Message("system", f"{'7' * 12}. {word}"), Message("user", "Hi")))
        for word in ("time", "year")
    ]
    if ids[0] is None or ids[1] is None:
        return 0
    pairs = zip(ids[0], ids[1], strict=False)
    return next((i for i, (left, right) in enumerate(pairs) if left != right), 0)
