"""`TokenSource`: how the texts of `bench serve` become tokens, so that an oracle can be computed.

Three servers tell it themselves, each in its own way (vLLM and ours, llama.cpp's llama-server,
llama-cpp-python's); for others, an installed model's tokenizer and template can be named. Asked
when nothing is measured.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from radixchat.bench.serve_answer import AskFailed
from radixchat.bench.serve_http import HttpConnection
from radixchat.bench.serve_load import Message
from radixchat.bench.trace_template import TemplateEncoder
from radixchat.engine.prompt import ChatMessage

_PROBE = (Message("user", "Hi"),)


class TokenSource(Protocol):
    """name: for people."""

    name: str

    async def prompt(self, messages: Sequence[Message]) -> list[int] | None:
        """The ids that the template makes of a conversation; None is unknown."""

    async def count(self, text: str) -> int | None:
        """Tokens of an answer's text; None is unknown."""


class NoTokens:
    """Nobody knows."""

    name = "no tokenizer"

    async def prompt(self, messages: Sequence[Message]) -> list[int] | None:
        """Unknown."""

    async def count(self, text: str) -> int | None:
        """Unknown."""


class LocalTokens:
    """An installed model's tokenizer and template. Raises ModelLoadError where it is not there."""

    def __init__(self, model: str) -> None:
        self.name = f"the tokenizer of {model}"
        self._encoder = TemplateEncoder.load(model)

    async def prompt(self, messages: Sequence[Message]) -> list[int] | None:
        """As the model's template has it."""
        chat = [ChatMessage(each.role, each.text) for each in messages]
        return self._encoder.begin().turn(chat, None)[0]

    async def count(self, text: str) -> int | None:
        """Without the end of the answer."""
        whole, empty = [
            self._encoder.begin().turn([ChatMessage("user", "Hi")], reply)[1]
            for reply in (text, "")
        ]
        return len(whole) - len(empty)


class _Asked:
    """What the three have in common: they ask over a connection."""

    def __init__(self, connection: HttpConnection, model: str) -> None:
        self._connection = connection
        self._model = model

    async def _post(self, path: str, **fields: object) -> Any:
        """The answer's JSON; None where the server does not know the path or the fields."""
        status, data = await self._connection.request("POST", path, json.dumps(fields).encode())
        text = b"".join([part async for part in data])
        try:
            return json.loads(text) if status == 200 else None
        except json.JSONDecodeError:
            return None


class MessageTokens(_Asked):
    """/tokenize takes messages: vLLM's, and ours."""

    name = "/tokenize"

    async def prompt(self, messages: Sequence[Message]) -> list[int] | None:
        """As the server's template has it."""
        chat = [{"role": each.role, "content": each.text} for each in messages]
        answer = await self._post(
            "/tokenize", model=self._model, messages=chat, add_generation_prompt=True
        )
        return _ids(answer)

    async def count(self, text: str) -> int | None:
        """Without special tokens."""
        answer = await self._post(
            "/tokenize", model=self._model, prompt=text, add_special_tokens=False
        )
        return _length(_ids(answer))


class TemplateTokens(_Asked):
    """/apply-template makes a text, /tokenize its ids: llama-server's."""

    name = "/apply-template and /tokenize"

    async def prompt(self, messages: Sequence[Message]) -> list[int] | None:
        """As the server's template has it."""
        chat = [{"role": each.role, "content": each.text} for each in messages]
        answer = await self._post("/apply-template", messages=chat)
        if not isinstance(answer, dict) or not isinstance(answer.get("prompt"), str):
            return None
        return _ids(
            await self._post(
                "/tokenize", content=answer["prompt"], add_special=True, parse_special=True
            )
        )

    async def count(self, text: str) -> int | None:
        """Without special tokens."""
        return _length(_ids(await self._post("/tokenize", content=text)))


class TextTokens(_Asked):
    """/extras/tokenize knows no template: llama-cpp-python's."""

    name = "/extras/tokenize"

    async def prompt(self, messages: Sequence[Message]) -> list[int] | None:
        """Unknown."""

    async def count(self, text: str) -> int | None:
        """Less the token that it puts at the front, if the model has one."""
        whole, empty = [
            _ids(await self._post("/extras/tokenize", input=each)) for each in (text, "")
        ]
        return len(whole) - len(empty) if whole is not None and empty is not None else None


async def find_tokens(connection: HttpConnection, model: str) -> TokenSource:
    """The first of the ways that the server knows."""
    for source in (MessageTokens(connection, model), TemplateTokens(connection, model)):
        try:
            if await source.prompt(_PROBE):
                return source
        except AskFailed:
            break
    text = TextTokens(connection, model)
    try:
        return text if await text.count("Hi") else NoTokens()
    except AskFailed:
        return NoTokens()


def _ids(answer: object) -> list[int] | None:
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(tokens, list) or not all(isinstance(each, int) for each in tokens):
        return None
    return tokens


def _length(ids: list[int] | None) -> int | None:
    return len(ids) if ids is not None else None
