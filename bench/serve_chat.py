"""`ChatClient`: one user of any OpenAI-compatible server, by streamed chat completions over HTTP.

Every turn sends the whole conversation again, as all such clients do. Knows no load and no table.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from radixchat.bench.serve_answer import (
    Answer,
    AskFailed,
    OptionRefused,
    Question,
    TokenCount,
    token_count,
)
from radixchat.bench.serve_http import HttpConnection

_SHOWN = 300  # characters of what a server says when it refuses
_USAGE_KEYS = ("prompt_tokens", "completion_tokens")


class ChatClient:
    """Asks over one connection. is_plain: only options that OpenAI's own API has, so that answers
    may end early."""

    def __init__(self, connection: HttpConnection, model: str, *, is_plain: bool) -> None:
        self._connection = connection
        self._model = model
        self._is_plain = is_plain

    async def ask(self, question: Question) -> Answer:
        """Stream one answer. Raises AskFailed, and OptionRefused where fewer options may do."""
        body = json.dumps(self._body(question)).encode()
        sent = time.perf_counter()
        try:
            return await self._read(sent, body)
        except OSError as error:
            await self._connection.close()
            raise AskFailed(f"the connection broke: {error}") from error

    async def close(self) -> None:
        """Hang up."""
        await self._connection.close()

    def _body(self, question: Question) -> dict[str, object]:
        body: dict[str, object] = {
            "model": self._model,
            "messages": [{"role": m.role, "content": m.text} for m in question.messages],
            "max_tokens": question.tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if not self._is_plain:  # every answer is as long as it is to be
            body |= {"ignore_eos": True, "min_tokens": question.tokens}
        return body

    async def _read(self, sent: float, body: bytes) -> Answer:
        status, data = await self._connection.request("POST", "/v1/chat/completions", body)
        async with aclosing(data):
            if status != 200:
                said = b"".join([part async for part in data]).decode(errors="replace")
                may_retry = status in (400, 422) and not self._is_plain
                kind = OptionRefused if may_retry else AskFailed
                raise kind(f"status {status}: {said[:_SHOWN]}")
            reading = _Reading(sent)
            async for moment, text in events(data):
                reading.take(moment, text)
        return reading.answer()


class _Reading:
    """An answer as far as it has come."""

    def __init__(self, sent: float) -> None:
        self._sent = sent
        self._pieces: list[tuple[float, str]] = []
        self._text: list[str] = []
        self._finish: str | None = None
        self._usage = TokenCount()
        self._ended = sent

    def take(self, moment: float, data: str) -> None:
        """One event's data, and when it came."""
        if data == "[DONE]":
            return
        try:
            chunk = json.loads(data)
        except json.JSONDecodeError as error:
            raise AskFailed(f"an event is no JSON: {data[:_SHOWN]}") from error
        if not isinstance(chunk, dict) or "error" in chunk:
            raise AskFailed(f"in the middle of an answer: {data[:_SHOWN]}")
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = token_count(usage, _USAGE_KEYS)
        for choice in chunk.get("choices") or ():
            self._ended = moment
            self._choose(moment, choice)

    def _choose(self, moment: float, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta") or {}
        said = delta.get("content") or ""
        # Reasoning is waited for, too; it does not go back to the server.
        if text := (delta.get("reasoning_content") or "") + said:
            self._pieces.append((moment, text))
        self._text.append(said)
        self._finish = choice.get("finish_reason") or self._finish

    def answer(self) -> Answer:
        """The whole one; raises AskFailed where it is not."""
        if self._finish is None:
            raise AskFailed(
                "an answer broke off without a finish_reason (llama-cpp-python's server does that"
                " to whoever is not the last, unless it has --interrupt_requests false)"
            )
        if not self._pieces:
            raise AskFailed(f"an answer without any text; its finish_reason is {self._finish}")
        text = "".join(self._text)
        return Answer(text, self._sent, tuple(self._pieces), self._ended, self._finish, self._usage)


async def events(body: AsyncGenerator[bytes, None]) -> AsyncGenerator[tuple[float, str], None]:
    """Server-sent events: when the last byte of each came, and its data."""
    rest, lines = b"", list[str]()
    async for part in body:
        moment = time.perf_counter()
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            text = line.removesuffix(b"\r").decode()
            if text.startswith("data:"):
                lines.append(text[5:].removeprefix(" "))
            elif not text and lines:
                yield moment, "\n".join(lines)
                lines.clear()
