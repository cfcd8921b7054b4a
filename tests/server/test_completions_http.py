"""Chat and text completions over HTTP: a real server, a real socket, a tiny model."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from radixchat.server.limits import Limits
from radixchat.server.local import LocalSettings
from radixchat.server.serve_settings import ServeSettings
from radixchat.tests.server.sites import SITE_SETTINGS, Site, at_site

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HELLO: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Hello"}],
    "temperature": 0,
    "max_tokens": 8,
}
LONG = {**HELLO, "max_tokens": 400, "ignore_eos": True, "speculate": False}


@contextlib.asynccontextmanager
async def stream(
    site: Site, path: str, body: Any, key: str | None = None
) -> AsyncIterator[AsyncIterator[str]]:
    """The data of a stream's events; leaving the block closes its connection."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with (
        httpx.AsyncClient(base_url=site.url, timeout=30, headers=headers) as client,
        client.stream("POST", path, json={**body, "stream": True}) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _data(answer)


async def _data(answer: httpx.Response) -> AsyncIterator[str]:
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


async def chunks_of(site: Site, path: str, body: Any) -> list[Any]:
    """All chunks of a stream, which has to end as OpenAI's do."""
    async with stream(site, path, body) as events:
        data = [event async for event in events]
    assert data.pop() == "[DONE]"
    return [json.loads(event) for event in data]


async def until(holds: Callable[[], bool]) -> None:
    """Until that is so, which nobody tells."""
    while not holds():  # noqa: ASYNC110  # there is no event to wait for
        await asyncio.sleep(0.005)


def test_a_chat_is_answered(settings: LocalSettings) -> None:
    """In OpenAI's form, with what it cost; the next turn hits all of it."""

    async def body(site: Site) -> None:
        made = await site.call("POST", CHAT, HELLO)
        (choice,) = made["choices"]
        assert made["object"] == "chat.completion"
        assert made["model"] == site.host.model_name
        assert choice["message"]["role"] == "assistant"
        assert choice["finish_reason"] == "length"
        usage = made["usage"]
        assert usage["completion_tokens"] == 8
        assert usage["total_tokens"] == usage["prompt_tokens"] + 8
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0
        assert usage["prompt_tokens_details"]["cache_write_tokens"] > 0
        more = [*HELLO["messages"], choice["message"], {"role": "user", "content": "More"}]
        after = await site.call("POST", CHAT, {**HELLO, "messages": more})
        cached = after["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert cached == usage["total_tokens"] - 1
        assert after["timings"]["cache_n"] == cached

    at_site(body, settings)


def test_a_stream_is_the_same_answer(settings: LocalSettings) -> None:
    """Text, logprobs and finish of each choice; the usage in a last chunk, if asked for."""

    async def body(site: Site) -> None:
        asked = {**HELLO, "temperature": 1, "seed": 3, "n": 2, "logprobs": True, "top_logprobs": 2}
        whole = await site.call("POST", CHAT, asked)
        chunks = await chunks_of(site, CHAT, {**asked, "stream_options": {"include_usage": True}})
        last = chunks.pop()
        assert last["choices"] == []
        assert last["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
        assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
        for choice in whole["choices"]:
            index = choice["index"]
            mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
            assert mine[0]["delta"] == {"role": "assistant", "content": ""}
            text = "".join(part["delta"].get("content", "") for part in mine)
            logprobs = [p for part in mine if part["logprobs"] for p in part["logprobs"]["content"]]
            assert text == choice["message"]["content"]
            assert logprobs == choice["logprobs"]["content"]
            assert [p["finish_reason"] for p in mine if p["finish_reason"]] == ["length"]
        plain = await chunks_of(site, CHAT, asked)
        assert all("usage" not in chunk for chunk in plain)

    at_site(body, settings)


def test_text_is_gone_on_with(settings: LocalSettings) -> None:
    """Whole and as a stream; with echo the prompt comes first, and its logprobs."""

    async def body(site: Site) -> None:
        asked = {"prompt": "abc", "max_tokens": 5, "temperature": 0, "logprobs": 1}
        made = await site.call("POST", TEXT, {**asked, "return_token_ids": True})
        (choice,) = made["choices"]
        assert len(choice["token_ids"]) == 5
        assert len(choice["logprobs"]["tokens"]) == 5
        echoed = await site.call("POST", TEXT, {**asked, "echo": True})
        logprobs = echoed["choices"][0]["logprobs"]
        assert echoed["choices"][0]["text"] == "abc" + choice["text"]
        assert logprobs["tokens"] == [*"abc", *choice["logprobs"]["tokens"]]
        assert logprobs["token_logprobs"][0] is None
        assert logprobs["token_logprobs"][3:] == choice["logprobs"]["token_logprobs"]
        assert logprobs["text_offset"][:4] == [0, 1, 2, 3]
        only = await site.call("POST", TEXT, {**asked, "echo": True, "max_tokens": 0})
        assert only["choices"][0]["text"] == "abc"
        assert only["choices"][0]["logprobs"]["tokens"] == [*"abc"]
        assert only["usage"]["completion_tokens"] == 0
        for given in (asked, {**asked, "echo": True}):
            whole = await site.call("POST", TEXT, given)
            chunks = await chunks_of(site, TEXT, given)
            parts = [part for chunk in chunks for part in chunk["choices"]]
            assert "".join(part["text"] for part in parts) == whole["choices"][0]["text"]
            offsets = [o for p in parts if p["logprobs"] for o in p["logprobs"]["text_offset"]]
            assert offsets == whole["choices"][0]["logprobs"]["text_offset"]

    at_site(body, settings)


@pytest.mark.parametrize("streams", [False, True])
def test_what_is_refused_is_a_status(settings: LocalSettings, streams: bool) -> None:
    """Of a stream too: nothing of it has begun."""

    async def body(site: Site) -> None:
        more = {"stream": streams}
        too_long = [{"role": "user", "content": "x" * 600}]
        for given, expected in (
            ({**HELLO, "model": "gpt-4"}, (404, "model_not_found", "model")),
            ({**HELLO, "messages": too_long}, (400, "context_length_exceeded", "messages")),
            ({**HELLO, "temperature": 99}, (400, "invalid_value", "temperature")),
            ({**HELLO, "messages": []}, (400, "invalid_value", "messages")),
        ):
            assert await site.refused("POST", CHAT, {**given, **more}) == expected
        assert await site.refused("POST", TEXT, {"prompt": "x" * 600, **more}) == (
            400,
            "context_length_exceeded",
            "prompt",
        )
        answer = await site.http.post(CHAT, content=b"{")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
        error = (await site.http.post(CHAT, json={**HELLO, "messages": too_long})).json()["error"]
        assert error["n_ctx"] == site.host.n_ctx
        assert error["n_prompt_tokens"] > 600

    at_site(body, settings)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.usefixtures("unhurried")
def test_a_client_that_goes_cancels(settings: LocalSettings, streams: bool) -> None:
    """Whether it was reading a stream or waiting for the whole; the tokens are counted."""

    async def body(site: Site) -> None:
        if streams:
            async with stream(site, CHAT, LONG) as events:
                await anext(events)
                assert json.loads(await anext(events))["choices"][0]["finish_reason"] is None
        else:
            async with httpx.AsyncClient(base_url=site.url) as client:
                waiting = asyncio.ensure_future(client.post(CHAT, json=LONG))
                await until(lambda: site.host.engine.snapshot.counters.steps > 0)
                waiting.cancel()
                await asyncio.wait({waiting})
        await until(lambda: not site.edge.num_answers)
        await until(lambda: site.host.engine.snapshot.counters.cancelled == 1)
        counters = site.host.engine.snapshot.counters
        assert counters.output_tokens < 390
        assert 0 < site.edge.rates.tokens_today("local") <= counters.output_tokens + 1
        assert (await site.call("POST", CHAT, HELLO))["usage"]["completion_tokens"] == 8

    at_site(body, settings)


@pytest.mark.usefixtures("unhurried")
def test_a_reader_that_stalls_is_cut(settings: LocalSettings) -> None:
    """The server's buffer is full, the client takes nothing: its answer ends, others go on."""
    limits = Limits(stalled_seconds=0.3)

    async def body(site: Site) -> None:
        # As much text as the kernel's buffers hold, and some.
        asked = {**LONG, "n": 16, "logprobs": True, "top_logprobs": 20, "stream": True}
        data = json.dumps(asked).encode()
        host, port = site.url.removeprefix("http://").split(":")
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.setblocking(False)
        loop = asyncio.get_running_loop()
        with contextlib.closing(reader):
            await loop.sock_connect(reader, (host, int(port)))
            head = f"POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(data)}\r\n\r\n"
            await loop.sock_sendall(reader, head.encode() + data)
            await until(lambda: site.edge.num_answers > 0)
            other = await site.call("POST", CHAT, HELLO)
            assert other["usage"]["completion_tokens"] == 8
            await until(lambda: not site.edge.num_answers)
            await until(lambda: site.host.engine.snapshot.counters.cancelled > 0)

    at_site(body, settings, replace(SITE_SETTINGS, limits=limits))


def test_keys_have_conversations_of_their_own(settings: LocalSettings) -> None:
    """One key's question is no hit for another's."""

    async def body(site: Site) -> None:
        cached = []
        for key in ("key-a", "key-a", "key-b"):
            answer = await site.call(
                "POST", CHAT, HELLO, headers={"authorization": f"Bearer {key}"}
            )
            cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
        assert cached[0] == cached[2] == 0
        assert cached[1] > 0
        assert site.edge.rates.tokens_today("a") == 16
        assert site.edge.rates.tokens_today("b") == 8

    at_site(body, settings)


@pytest.mark.usefixtures("unhurried")
def test_an_engine_that_fails_ends_a_stream_with_an_error(settings: LocalSettings) -> None:
    """The SDK raises for it; there is no [DONE]."""

    async def body(site: Site) -> None:
        async with stream(site, CHAT, LONG) as events:
            await anext(events)
            await site.host.engine.stop()
            rest = [event async for event in events]
        error = json.loads(rest[-1])["error"]
        assert error["code"] == "engine_failed"
        assert "[DONE]" not in rest

    at_site(body, settings)


def test_first_tokens_are_counted_by_what_the_cache_did(settings: LocalSettings) -> None:
    """A miss, then a hit."""

    async def body(site: Site) -> None:
        await site.call("POST", CHAT, HELLO)
        await site.call("POST", CHAT, HELLO)
        counted = {label: kept.count for label, kept in site.edge.metrics.first_token.items()}
        assert counted == {"hit": 1, "partial": 0, "miss": 1}

    at_site(body, settings)


def test_a_server_that_leaves_takes_nothing_new(settings: LocalSettings) -> None:
    """503, and when to try again."""

    async def body(site: Site) -> None:
        site.edge.departure.drain(5)
        answer = await site.http.post(CHAT, json=HELLO)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after-ms"]) > 0

    at_site(body, settings, ServeSettings(port=0))
