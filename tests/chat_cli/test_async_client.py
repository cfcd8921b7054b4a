"""A server's conversations over a WebSocket that breaks: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncGenerator, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radixchat.chat_cli.answer_request import AnswerRequest
from radixchat.chat_cli.async_client import AsyncChatClient
from radixchat.chat_cli.backoff import Backoff
from radixchat.chat_cli.client import ChatClient
from radixchat.server.local import LocalSettings
from radixchat.server.protocol import (
    ConversationLocked,
    ConversationNotFound,
    InvalidRequest,
    OutputTextDelta,
    PrefillProgress,
    ResponseCreated,
    ResponseDone,
    ResponseEvent,
    ResponseFormat,
    ResponseOptions,
    ResponseTimings,
    ServerUnreachable,
)
from radixchat.server.serve_settings import ServeSettings
from radixchat.tests.chat_cli.flapping_proxy import flapping_proxy
from radixchat.tests.server.sockets import Server, open_server, serve_sockets, settled
from radixchat.tests.server.test_tls import make_certificate
from radixchat.tests.slow_steps import slowed

QUICK = Backoff(first_s=0.01, most_s=0.05, patience_s=20, busy_s=0.1)
LONG = ResponseOptions(temperature=1.5, seed=3, max_output_tokens=120, speculate=False)


@pytest.fixture
def local(tiny_model: Path, tmp_path: Path) -> LocalSettings:
    return LocalSettings(model=str(tiny_model), database=tmp_path / "chat.db")


def client_of(url: str, **more: Any) -> AsyncChatClient:
    return AsyncChatClient(url, **{"backoff": QUICK, **more})


async def read(events: AsyncGenerator[ResponseEvent]) -> ResponseDone:
    """The end of an answer, held to what came before it: one beginning, each character once."""
    created, text, done = 0, "", None
    async for event in events:
        assert done is None, "the end is the last"
        match event:
            case ResponseCreated():
                created += 1
                assert not text
            case OutputTextDelta():
                assert event.offset == len(text)
                text += event.delta
            case ResponseDone():
                done = event
    assert done is not None
    assert created == 1
    assert text == done.output_text
    return done


def answer(done: ResponseDone) -> ResponseDone:
    """What has to be the same, wherever and however it was answered."""
    usage = replace(done.usage, cached_tokens=0, cache_write_tokens=0, kept_tokens=0)
    usage = replace(usage, draft_tokens=0, accepted_tokens=0)
    timings = ResponseTimings(None, None, None)
    nobody = replace(done, conversation=None, response=None, miss=None, sequence=0)
    return replace(nobody, usage=usage, timings=timings)


def _asked(
    client: ChatClient, ask: str, conversation: str, options: ResponseOptions
) -> AsyncGenerator[ResponseEvent]:
    match ask:
        case "send":
            return client.send(conversation, "one", options)
        case "edit":
            return client.edit(conversation, 1, "two", options)
        case _:
            return client.regenerate(conversation, options)


def test_every_option_arrives(local: LocalSettings) -> None:
    """An answer over a socket is that of the process, with every option, edited and regenerated."""
    asked = (
        ResponseOptions(temperature=0.0, seed=1, max_output_tokens=8, stop=("zq",), top_logprobs=2),
        ResponseOptions(
            temperature=1.2, top_p=0.8, top_k=9, min_p=0.01, typical_p=0.9, seed=5,
            repetition_penalty=1.1, presence_penalty=0.1, frequency_penalty=0.2,
            dry_multiplier=0.5, dry_base=1.5, dry_allowed_length=3, min_output_tokens=2,
            logit_bias=((5, -3.0), (7, 2.5)), bad_words=("ab",), max_output_tokens=12,
            ignore_eos=True, truncation="auto", speculate=False, timeout_s=60.0, priority=4,
        ),
    )  # fmt: skip

    async def body(server: Server) -> None:
        service = server.host.service("local")
        async with client_of(server.url, request=AnswerRequest(token_ids=True)) as client:
            for options in asked:
                here, there = (
                    await service.create_conversation("be brief"),
                    await client.create_conversation("be brief"),
                )
                for ask in ("send", "edit", "regenerate"):
                    mine = await read(_asked(service, ask, here, options))
                    theirs = await read(_asked(client, ask, there, options))
                    assert answer(theirs) == answer(mine)
                told = [(m.role, m.text) for m in await client.messages(there)]
                assert told == [(m.role, m.text) for m in await service.messages(here)]

    serve_sockets(body, local)


def test_formats_arrive(local: LocalSettings) -> None:
    """JSON, schemas, choices, expressions and grammars hold over a socket, regenerated too."""
    formats = {
        ResponseFormat("choice", '["yes", "no"]'): ("yes", "no"),
        ResponseFormat("regex", "ab"): ("ab",),
        ResponseFormat("lark", 'start: "x"'): ("x",),
        ResponseFormat("json_schema", '{"const": true}'): ("true",),
    }

    async def body(server: Server) -> None:
        async with client_of(server.url) as client:
            for wanted, texts in formats.items():
                options = ResponseOptions(response_format=wanted, max_output_tokens=30)
                conversation = await client.create_conversation()
                assert (await read(client.send(conversation, "?", options))).output_text in texts
                assert (await read(client.regenerate(conversation, options))).output_text in texts

    serve_sockets(body, local)


def test_conversations(local: LocalSettings) -> None:
    """What a client asks of its conversations it is told as the service tells it, refusals too."""

    async def body(server: Server) -> None:
        service = server.host.service("local")
        options = ResponseOptions(max_output_tokens=3)
        async with client_of(server.url) as client:
            assert (client.model_name, client.n_ctx) == (service.model_name, service.n_ctx)
            assert client.notices == service.notices
            assert await client.latest_conversation() is None
            first = await client.create_conversation()
            await read(client.send(first, "one", options))
            await client.create_conversation()
            assert await client.latest_conversation() == first
            assert await client.resolve_conversation(first[:-1]) == first
            assert await client.messages(first) == await service.messages(first)
            assert (await client.undo(first)).text == "one"
            with pytest.raises(InvalidRequest):
                await client.undo(first)
            for refused in (
                client.resolve_conversation("conv_none"),
                client.messages("conv_none"),
                read(client.send("conv_none", "x", options)),
            ):
                with pytest.raises(ConversationNotFound):
                    await refused
            await client.close_conversation(first)
            assert "engine" in await client.stats()

    serve_sockets(body, local)


@pytest.mark.parametrize("times", [10, pytest.param(40, marks=pytest.mark.slow)])
def test_a_proxy_that_cuts_at_random(local: LocalSettings, times: int) -> None:
    """Before a response is known, in its prompt, in its text, at its end: the same answers."""
    dice = random.Random(4)

    def cuts() -> Iterator[int]:
        yield 100  # the first connection says hello
        for _ in range(times):
            yield dice.choice((0, 1, 2, 3, 4, 5, 6, 8, 12, 20))
        yield from itertools.repeat(10_000)

    async def body(server: Server) -> None:
        whole = []
        async with client_of(server.url) as client:
            conversation = await client.create_conversation()
            for turn in range(3):
                whole.append(await read(client.send(conversation, f"turn {turn}", LONG)))
        async with (
            flapping_proxy(server.url, cuts()) as proxy,
            client_of(proxy.url) as client,
        ):
            conversation = await client.create_conversation()
            for turn in range(3):
                done = await read(client.send(conversation, f"turn {turn}", LONG))
                assert answer(done) == answer(whole[turn])
            while proxy.num_cut < times:
                done = await read(client.regenerate(conversation, LONG))
                assert answer(done) == answer(whole[2])
            users = [m.text for m in await client.messages(conversation) if m.role == "user"]
            assert users == ["turn 0", "turn 1", "turn 2"], "nothing was asked twice"
            assert proxy.num_cut >= times

    with slowed(0.001):
        serve_sockets(body, local, ServeSettings(port=0))


def test_taking_a_turn_back_once(local: LocalSettings) -> None:
    """An undo whose reply is lost is not done again."""

    async def body(server: Server) -> None:
        options = ResponseOptions(max_output_tokens=2)
        async with client_of(server.url) as client:
            conversation = await client.create_conversation()
            for text in ("one", "two", "three"):
                await read(client.send(conversation, text, options))
        for cut in range(2, 7):
            cuts = iter([cut])
            async with flapping_proxy(server.url, cuts) as proxy, client_of(proxy.url) as client:
                undone = (await client.undo(conversation)).text
                users = [m.text for m in await client.messages(conversation) if m.role == "user"]
                assert (undone, users) == ("three", ["one", "two"])
                await read(client.send(conversation, "three", options))

    serve_sockets(body, local)


@pytest.mark.parametrize("ask", ["create", "fork", "delete", "tip", "system", "title"])
def test_changes_are_made_once(local: LocalSettings, ask: str) -> None:
    """Wherever the connection is cut: one conversation more, one less, one other branch."""

    async def asked(client: ChatClient, conversation: str, other: str, *, has_tree: bool) -> object:
        match ask:
            case "create":
                return await client.create_conversation("be brief")
            case "fork":
                at = (await client.messages(conversation))[-1].id if has_tree else None
                return (await client.fork_conversation(conversation, at=at, title="it")).id
            case "delete":
                await client.delete_conversation(other)
                return None
            case "tip":
                return (await client.update_conversation(conversation, tip=other)).tip
            case "system":
                return (await client.update_conversation(conversation, system="be brief")).system
            case _:
                return (await client.update_conversation(conversation, title="it")).title

    async def body(server: Server) -> None:
        options = ResponseOptions(max_output_tokens=2)
        async with client_of(server.url) as client:
            for cut in (1, 2, 3, 4):
                conversation = await client.create_conversation()
                done = await read(client.send(conversation, "one", options))
                before = {view.id for view in await client.conversations(limit=100)}
                other = await client.create_conversation()
                if ask == "tip":
                    other = (await client.messages(conversation))[-1].id
                    await read(client.edit(conversation, 1, "two", options))
                cuts = iter([1000, cut])
                async with (
                    flapping_proxy(server.url, cuts) as proxy,
                    client_of(proxy.url) as far,
                ):
                    for task in list(proxy.tasks):
                        task.cancel()  # the next connection is cut in the middle
                    result = await asked(far, conversation, other, has_tree=cut % 2 == 0)
                now = await client.conversations(limit=100)
                told = {view.id for view in now} - before
                match ask:
                    case "create" | "fork":
                        assert told == {other, result}
                    case "delete":
                        assert told == set()
                    case "tip":
                        assert result == other == (await client.messages(conversation))[-1].id
                    case "system":
                        path = [m.text for m in await client.messages(conversation)]
                        assert path == ["be brief", "one", done.output_text]
                        roots = [m for m in await client.tree(conversation) if m.parent is None]
                        assert len(roots) == 2, "the path before, and one copy"
                    case _:
                        assert (await client.conversation(conversation)).title == "it"

    serve_sockets(body, local)


def test_a_branch_that_somebody_has_gone_on_in(local: LocalSettings) -> None:
    """A move whose reply is lost is not made again over what was said meanwhile elsewhere."""

    async def body(server: Server) -> None:
        options = ResponseOptions(max_output_tokens=2)
        async with client_of(server.url) as near:
            conversation = await near.create_conversation()
            await read(near.send(conversation, "one", options))
            first = (await near.messages(conversation))[-1].id
            await read(near.edit(conversation, 1, "two", options))
            lost = asyncio.Event()
            # Hello, the conversation as it is, and what is lost: the reply to the move.
            async with (
                flapping_proxy(server.url, iter([3])) as proxy,
                client_of(proxy.url, tell=lambda _: lost.set()) as far,
            ):
                target = proxy.target
                moving = asyncio.create_task(far.update_conversation(conversation, tip=first))
                await settled(lambda: proxy.num_cut == 1)
                proxy.target = None
                await lost.wait()
                await read(near.send(conversation, "three", options))
                proxy.target = target
                await moving
            users = [m.text for m in await near.messages(conversation) if m.role == "user"]
            assert users == ["one", "three"]

    serve_sockets(body, local)


@pytest.mark.parametrize("text_first", [False, True])
def test_a_server_that_is_replaced_in_the_middle(local: LocalSettings, text_first: bool) -> None:
    """Its answer, cut short, goes on with the next server, before the first token or after."""

    async def whole() -> ResponseDone:
        async with open_server(local) as server, client_of(server.url) as client:
            return await read(client.send(await client.create_conversation(), "go on", LONG))

    async def main() -> None:
        told: list[str] = []
        expected = await whole()
        async with contextlib.AsyncExitStack() as stack:
            first = contextlib.AsyncExitStack()
            first.enter_context(slowed(0.02))
            server = await first.enter_async_context(open_server(local))
            proxy = await stack.enter_async_context(flapping_proxy(server.url, iter([])))
            client = await stack.enter_async_context(client_of(proxy.url, tell=told.append))
            events = client.send(await client.create_conversation(), "go on", LONG)
            seen: list[ResponseEvent] = []
            async for event in events:
                seen.append(event)
                if len(seen) >= (20 if text_first else 1):
                    break
            proxy.target = None
            await first.aclose()
            async with flapping_proxy(server.url, iter([])):
                second = await stack.enter_async_context(open_server(local))
            host, port = second.url.removeprefix("ws://").partition("/")[0].split(":")
            proxy.target = (host, int(port))

            async def rest() -> AsyncGenerator[ResponseEvent]:
                for event in seen:
                    yield event
                async for event in events:
                    yield event

            assert answer(await read(rest())).output_text == expected.output_text
            assert len(told) == 2
            assert "is lost" in told[0]
            assert "is back" in told[1]

    asyncio.run(asyncio.wait_for(main(), 300))


def test_leaving_cancels(local: LocalSettings) -> None:
    """An iteration that is left ends its response, which is stored; the next turn can begin."""

    async def body(server: Server) -> None:
        async with client_of(server.url) as client:
            conversation = await client.create_conversation()
            events = client.send(conversation, "one", replace(LONG, max_output_tokens=1000))
            async for event in events:
                if isinstance(event, OutputTextDelta):
                    break
            await events.aclose()
            assert not server.host.running
            assert (await client.messages(conversation))[-1].status == "interrupted"
            events = client.send(conversation, "two", LONG)
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            await settled(lambda: not server.host.running)
            await read(client.send(conversation, "three", LONG))

    with slowed(0.002):
        serve_sockets(body, local)


@pytest.mark.parametrize("cut", [None, 6])
def test_cancelling(local: LocalSettings, cut: int | None) -> None:
    """A response that is cancelled ends interrupted, over the next connection too."""

    async def body(server: Server) -> None:
        async with (
            flapping_proxy(server.url, iter([cut] if cut else [])) as proxy,
            client_of(proxy.url) as client,
        ):
            conversation = await client.create_conversation()
            options = replace(LONG, max_output_tokens=2000)
            async for event in client.send(conversation, "one", options):
                if isinstance(event, ResponseCreated):
                    await client.cancel(event.response)
                if isinstance(event, ResponseDone):
                    assert event.reason == "interrupted"
                    await client.cancel(event.response or "")

    with slowed(0.002):
        serve_sockets(body, local)


def test_many_at_once(local: LocalSettings) -> None:
    """More answers than a connection has lanes take turns; of one conversation one is refused."""

    async def body(server: Server) -> None:
        async with client_of(server.url) as client:
            ids = [await client.create_conversation() for _ in range(20)]
            options = ResponseOptions(max_output_tokens=8, seed=1)
            done = await asyncio.gather(*(read(client.send(id_, "hi", options)) for id_ in ids))
            assert len({end.output_text for end in done}) == 1
            events = client.send(ids[0], "more", replace(LONG, max_output_tokens=3000))
            await anext(events)
            for refused in (
                read(client.send(ids[0], "at the same time", LONG)),
                client.undo(ids[0]),
            ):
                with pytest.raises(ConversationLocked):
                    await refused
            await events.aclose()

    with slowed(0.001):
        serve_sockets(body, local)


def test_a_conversation_that_is_busy_is_asked_again(local: LocalSettings) -> None:
    """Whoever comes while another answer is at its end is answered after it, or moves the tip."""
    patient = replace(QUICK, busy_s=30.0)

    async def body(server: Server) -> None:
        async with (
            client_of(server.url) as one,
            client_of(server.url, backoff=patient) as other,
        ):
            conversation = await one.create_conversation()
            refusals = server.edge.metrics.refusals
            for ask in ("send", "undo"):
                refusals.clear()
                events = one.send(conversation, "one", replace(LONG, max_output_tokens=3000))
                await anext(events)
                short = replace(LONG, max_output_tokens=3)
                later: Coroutine[Any, Any, object] = (
                    read(other.send(conversation, "two", short))
                    if ask == "send"
                    else other.undo(conversation)
                )
                answered = asyncio.create_task(later)
                await settled(lambda: refusals["conversation_locked"] > 0)
                await events.aclose()
                await answered
            users = [m.text for m in await one.messages(conversation) if m.role == "user"]
            assert users == ["one", "two"]

    with slowed(0.001):
        serve_sockets(body, local)


def test_the_prompt_s_progress(local: LocalSettings) -> None:
    """Who asks for it is told how far the prompt is computed."""

    async def body(server: Server) -> None:
        async with client_of(server.url, request=AnswerRequest(progress=True)) as client:
            events = client.send(await client.create_conversation(), "many words " * 200, LONG)
            kinds = [type(event) async for event in events]
            assert PrefillProgress in kinds

    serve_sockets(body, local)


def test_a_server_that_does_not_come_back(local: LocalSettings) -> None:
    """It is given up when patience is out, and tried anew when something is asked again."""

    async def body(server: Server) -> None:
        patience = Backoff(first_s=0.01, most_s=0.02, patience_s=0.3)
        async with (
            flapping_proxy(server.url, iter([])) as proxy,
            client_of(proxy.url, backoff=patience) as client,
        ):
            conversation = await client.create_conversation()
            target, proxy.target = proxy.target, None
            events = client.send(conversation, "one", replace(LONG, max_output_tokens=3000))
            seen: list[ResponseEvent] = []
            async for event in events:
                seen.append(event)
                if isinstance(event, OutputTextDelta):
                    for task in list(proxy.tasks):
                        task.cancel()
            done = seen[-1]
            assert isinstance(done, ResponseDone)
            assert (done.status, done.reason) == ("incomplete", "server_shutdown")
            assert done.error is not None
            assert done.error.code == "server_unavailable"
            assert "is gone since" in done.error.message
            text = "".join(e.delta for e in seen if isinstance(e, OutputTextDelta))
            assert done.output_text == text != ""
            with pytest.raises(ServerUnreachable):
                await client.messages(conversation)
            proxy.target = target
            assert (await client.messages(conversation))[0].text == "one"

    with slowed(0.002):
        serve_sockets(body, local)


@pytest.mark.parametrize("asks_to_cancel", [False, True])
def test_to_stop_waiting(local: LocalSettings, asks_to_cancel: bool) -> None:
    """Of a lost server: an answer ends with what has come, a question fails, later ones wait.

    A server that hears nothing of it until it is back is told first of all then.
    """
    patience = Backoff(first_s=0.01, most_s=60, patience_s=1000)
    impatient = not asks_to_cancel

    async def body(server: Server) -> None:
        nonlocal impatient

        def tell(text: str) -> None:
            if impatient and "is lost" in text:
                asyncio.get_running_loop().call_soon(client.stop_waiting)

        async with (
            flapping_proxy(server.url, iter([])) as proxy,
            client_of(proxy.url, backoff=patience, tell=tell) as client,
        ):
            conversation = await client.create_conversation()
            target, proxy.target = proxy.target, None
            events = client.send(conversation, "one", replace(LONG, max_output_tokens=3000))
            text, done = "", None
            async for event in events:
                match event:
                    case OutputTextDelta() if text:
                        text += event.delta
                    case OutputTextDelta():
                        text += event.delta
                        for task in list(proxy.tasks):
                            task.cancel()
                        if asks_to_cancel:
                            await client.cancel(event.response)
                    case ResponseDone():
                        done = event
            assert done is not None
            assert (done.status, done.reason) == ("incomplete", "interrupted")
            assert done.output_text == text != ""
            assert done.error is not None
            assert "is lost" in done.error.message
            impatient = True
            with pytest.raises(ServerUnreachable, match="stopped waiting"):
                await client.messages(conversation)
            with pytest.raises(ServerUnreachable, match="stopped waiting"):
                await read(client.send(conversation, "two", LONG))
            assert server.host.running
            impatient = False
            proxy.target = target
            await client.messages(conversation)
            await settled(lambda: not server.host.running)
            assert (await client.messages(conversation))[-1].status == "interrupted"

    with slowed(0.01):
        serve_sockets(body, local)


def test_a_certificate_is_checked(
    local: LocalSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that the system's authorities do not know is refused; one that they know is taken."""
    certificate, key = make_certificate(tmp_path / "tls")

    async def body(server: Server) -> None:
        assert server.url.startswith("wss://")
        with pytest.raises(ServerUnreachable, match="certificate"):
            async with client_of(server.url):
                pass
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with client_of(server.url) as client:
            assert await client.latest_conversation() is None

    serve_sockets(body, local, ServeSettings(port=0, tls_cert=certificate, tls_key=key))
