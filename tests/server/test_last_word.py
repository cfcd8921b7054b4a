"""What a client over HTTP is told when the server ends in the middle of its answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from radixchat.server import last_word
from radixchat.server.departure import Departure
from radixchat.server.last_word import LastWord
from radixchat.server.metrics import Metrics
from radixchat.tests.server.asgi import drive, http_scope, request_body

App = Callable[[Scope, Receive, Send], Awaitable[None]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end comes soon."""
    monkeypatch.setattr(last_word, "GRACE_SECONDS", 0.05)


def answer(app: App, *, closes: bool = True) -> tuple[list[Message], Metrics]:
    """What a client is sent by an app whose server ends as soon as the answer runs."""

    async def main() -> tuple[list[Message], Metrics]:
        departure, metrics = Departure(), Metrics()
        wrapped = LastWord(app, departure, metrics)
        driving = asyncio.create_task(
            drive(wrapped, http_scope("POST", "/", {}), request_body(b"{}"))
        )
        for _ in range(100):  # as far as it goes without waiting for time
            await asyncio.sleep(0)
        if closes:
            departure.close()
        return await asyncio.wait_for(driving, 60), metrics

    return asyncio.run(main())


def started(kind: str) -> Message:
    return {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", kind.encode())],
    }


def body(text: bytes, more: bool) -> Message:
    return {"type": "http.response.body", "body": text, "more_body": more}


def error(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)["error"]
    return found


async def stuck(scope: Scope, receive: Receive, send: Send) -> None:
    """Says nothing, for ever."""
    await asyncio.Event().wait()


def test_an_answer_that_has_not_begun_is_an_error() -> None:
    """503, and when to try again."""
    sent, metrics = answer(stuck)
    start, whole = sent
    assert start["status"] == 503
    assert error(whole["body"])["code"] == "server_overloaded"
    assert dict(start["headers"])[b"retry-after"] == b"5"
    assert metrics.refusals["server_overloaded"] == 1


def test_a_stream_ends_with_an_error() -> None:
    """An event that SDKs raise on, and a proper end of the body."""

    async def streaming(scope: Scope, receive: Receive, send: Send) -> None:
        await send(started("text/event-stream; charset=utf-8"))
        await send(body(b"data: {}\n\n", True))
        await asyncio.Event().wait()

    sent, metrics = answer(streaming)
    last = sent[-1]
    assert not last["more_body"]
    assert last["body"].endswith(b"\n\n")
    assert error(last["body"].removeprefix(b"data: "))["code"] == "server_overloaded"
    assert metrics.refusals["server_overloaded"] == 1


def test_one_that_ends_in_time_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever only has to say the last thing may."""
    monkeypatch.setattr(last_word, "GRACE_SECONDS", 60.0)

    async def ending(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.03)
        await send(started("application/json"))
        await send(body(b"{}", False))

    for closes in (True, False):
        sent, metrics = answer(ending, closes=closes)
        assert [message.get("body") for message in sent] == [None, b"{}"]
        assert not metrics.refusals


def test_an_app_s_failure_comes_through() -> None:
    """A bug is nobody's departure."""

    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        answer(failing)


def test_whoever_is_cancelled_cancels_the_answer() -> None:
    """The server gives a request up: what makes its answer stops, too."""
    stopped: list[str] = []

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("stopped")

    async def main() -> None:
        wrapped = LastWord(waiting, Departure(), Metrics())
        task = asyncio.create_task(drive(wrapped, http_scope("GET", "/", {}), []))
        for _ in range(100):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert stopped == ["stopped"]
