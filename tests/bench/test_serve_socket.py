"""A user of the Responses API over a WebSocket, against a server that says what it is told to."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from radixchat.bench.serve_answer import Answer, AskFailed, OptionRefused, Question, TokenCount
from radixchat.bench.serve_http import Address
from radixchat.bench.serve_load import Message
from radixchat.bench.serve_socket import SocketClient

SYSTEM, HELLO, AGAIN = Message("system", "Be."), Message("user", "Hi"), Message("user", "Again")
ANSWERED: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"id": "resp_1"}},
    {"type": "response.output_text.delta", "delta": "He"},
    {"type": "response.output_text.delta", "delta": "llo"},
    {
        "type": "response.incomplete",
        "response": {
            "id": "resp_1",
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "usage": {
                "input_tokens": 9,
                "output_tokens": 2,
                "input_tokens_details": {"cached_tokens": 5},
            },
        },
    },
]


async def converse(
    events: list[dict[str, Any]], *questions: Question, is_plain: bool = False
) -> tuple[list[Answer], list[dict[str, Any]], list[str]]:
    """The answers, what was sent, and the paths of the sockets."""
    asked: list[dict[str, Any]] = []
    paths: list[str] = []

    async def answer(socket: ServerConnection) -> None:
        assert socket.request is not None
        paths.append(socket.request.path)
        async for data in socket:
            asked.append(json.loads(data))
            for event in events:
                await socket.send(json.dumps(event))

    async with serve(answer, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        address = Address.of(f"http://127.0.0.1:{port}/v1")
        client = SocketClient(address, "secret", "small", is_plain=is_plain)
        try:
            return [await client.ask(each) for each in questions], asked, paths
        finally:
            await client.close()


def test_a_turn_sends_what_is_new() -> None:
    """And names the response that it follows, on the same socket."""
    first = Question((SYSTEM, HELLO), None, 2)
    second = Question((SYSTEM, HELLO, Message("assistant", "Hello"), AGAIN), "resp_1", 2)
    answers, asked, paths = asyncio.run(converse(ANSWERED, first, second))
    assert paths == ["/v1/responses"]
    assert [each["input"] for each in asked] == ["Hi", "Again"]
    assert [each.get("previous_response_id") for each in asked] == [None, "resp_1"]
    assert asked[0] | {"input": "", "previous_response_id": ""} == {
        "type": "response.create", "model": "small", "instructions": "Be.", "input": "",
        "max_output_tokens": 2, "temperature": 0, "previous_response_id": "",
        "x": {"ignore_eos": True, "min_output_tokens": 2},
    }  # fmt: skip
    assert [each.text for each in answers] == ["Hello", "Hello"]
    assert answers[0].finish == "length"
    assert answers[0].usage == TokenCount(9, 5, 2)
    assert answers[0].response == "resp_1"
    assert len(answers[0].pieces) == 2


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "status": 400, "error": {"message": "unknown x"}}, OptionRefused),
        ({"type": "error", "status": 503, "error": {"message": "later"}}, AskFailed),
        ({"type": "response.failed", "response": {"id": "r", "status": "failed"}}, AskFailed),
        ({"type": "response.completed", "response": {"id": "r", "status": "completed"}}, AskFailed),
    ],
)
def test_what_a_server_refuses(event: dict[str, Any], kind: type[AskFailed]) -> None:
    """Is told in its words; only an option may be left out and asked again."""
    question = Question((SYSTEM, HELLO), None, 2)
    with pytest.raises(AskFailed) as told:
        asyncio.run(converse([event], question))
    assert type(told.value) is kind
    with pytest.raises(AskFailed) as told:
        asyncio.run(converse([event], question, is_plain=True))
    assert type(told.value) is AskFailed


def test_a_server_that_is_not_there() -> None:
    """Is named."""
    client = SocketClient(Address.of("http://127.0.0.1:1"), None, "small", is_plain=True)
    with pytest.raises(AskFailed, match="the socket broke"):
        asyncio.run(client.ask(Question((SYSTEM, HELLO), None, 2)))
