"""A server of chat completions without a model: what `bench serve` is tested against.

\b
    python -m radixchat.tests.bench.chat_server '{"tokens": "messages", "merge": 2}'

Its tokens are words, its cache is perfect, and it can be told to be otherwise. It writes its port,
then serves until it is killed. Standard library only, so that it starts at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Manners:
    """tokens: how it tells them, "messages", "template", "text" or "". usage: whether it says it.
    merge: tokens of a chunk. lie: added to what was cached. is_strict: refuses options that OpenAI
    does not have. breaks: answers have no end. refuses: every request from this one on; 0 is none.
    hangs_up: closes the connection after every answer."""

    tokens: str = "messages"
    usage: bool = True
    merge: int = 1
    lie: int = 0
    is_strict: bool = False
    breaks: bool = False
    refuses: int = 0
    hangs_up: bool = False


class ChatServer:
    """Everything that it was asked stays cached."""

    def __init__(self, manners: Manners) -> None:
        self._manners = manners
        self._paths: list[list[int]] = []
        self._asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until it is closed."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                _, path, _ = lines[0].split()
                sizes = [line for line in lines if line.lower().startswith("content-length:")]
                size = int(sizes[0].split(":")[1]) if sizes else 0
                body = json.loads(await reader.readexactly(size) or b"{}")
                await self._answer(path, body, writer)
                if self._manners.hangs_up:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async def _answer(self, path: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if path != "/v1/chat/completions":
            answer = self._told(path, body)
            _write(writer, 404 if answer is None else 200, answer or {})
            return
        self._asked += 1
        if 0 < self._manners.refuses <= self._asked:
            _write(writer, 503, {"error": {"message": "too much to do"}})
        elif self._manners.is_strict and "ignore_eos" in body:
            _write(writer, 400, {"error": {"message": "unknown parameter ignore_eos"}})
        else:
            await self._stream(body, writer)

    def _told(self, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        way = self._manners.tokens
        if path == "/v1/models":
            return {"data": [{"id": "words"}]}
        if path == "/tokenize" and way == "messages":
            ids = prompt_ids(body["messages"]) if "messages" in body else word_ids(body["prompt"])
            return {"tokens": ids}
        if path == "/apply-template" and way == "template":
            return {"prompt": rendered(body["messages"])}
        if path == "/tokenize" and way == "template":
            return {"tokens": word_ids(body["content"])} if "content" in body else None
        if path == "/extras/tokenize" and way == "text":
            return {"tokens": [1, *word_ids(body["input"])]}
        return None

    async def _stream(self, body: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
        manners, prompt = self._manners, prompt_ids(body["messages"])
        cached = max((common(path, prompt[:-1]) for path in self._paths), default=0)
        words = [f" w{self._asked}x{index}" for index in range(body["max_tokens"])]
        self._paths.append(prompt + word_ids("".join(words))[:-1])
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        for chunk in self._chunks(words):
            _chunk(writer, f"data: {json.dumps(chunk)}\r\n\r\n: a comment\r\n\r\n")
            await writer.drain()
        if manners.usage:
            details = {"cached_tokens": cached + manners.lie}
            usage = {"prompt_tokens": len(prompt), "completion_tokens": len(words)}
            last = {"choices": [], "usage": usage | {"prompt_tokens_details": details}}
            _chunk(writer, f"data: {json.dumps(last)}\n\n")
        _chunk(writer, "data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _chunks(self, words: list[str]) -> Iterator[dict[str, Any]]:
        yield {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
        for start in range(0, len(words), self._manners.merge):
            text = "".join(words[start : start + self._manners.merge])
            yield {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        if not self._manners.breaks:
            yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}


def rendered(messages: list[dict[str, str]]) -> str:
    """The template."""
    parts = [f" <{each['role']}> {each['content'].strip()} <end>" for each in messages]
    return "".join([*parts, " <assistant>"])


def prompt_ids(messages: list[dict[str, str]]) -> list[int]:
    """A token a word."""
    return word_ids(rendered(messages))


def word_ids(text: str) -> list[int]:
    """A token a word."""
    return [zlib.crc32(word.encode()) % 2**31 for word in text.split()]


def common(left: list[int], right: list[int]) -> int:
    """How many of the first are the same."""
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _write(writer: asyncio.StreamWriter, status: int, answer: Mapping[str, Any]) -> None:
    data = json.dumps(answer).encode()
    writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)


def _chunk(writer: asyncio.StreamWriter, text: str) -> None:
    writer.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())


async def main(manners: Manners) -> None:
    """Serve for ever."""
    server = await asyncio.start_server(ChatServer(manners).serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Manners(**json.loads(sys.argv[1]))))
