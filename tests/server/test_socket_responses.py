"""Responses over a socket: asked for, forked, repeated, cancelled, watched, forgotten."""

from __future__ import annotations

import asyncio

import pytest

from radixchat.server import socket_responses
from radixchat.server.local import LocalSettings
from radixchat.server.serve_settings import ServeSettings
from radixchat.tests.server.sockets import (
    Client,
    Server,
    held_to_its_numbers,
    serve_sockets,
    settled,
    text_of,
)
from radixchat.tests.slow_steps import slowed

ENDLESS = {"ignore_eos": True}


async def conversation(client: Client, **fields: str) -> str:
    """A new one."""
    created = await client.ask("session.create", **fields)
    assert created["type"] == "session.created", created
    id_: str = created["session"]["id"]
    return id_


def test_turns_of_a_conversation_cost_only_what_is_new(settings: LocalSettings) -> None:
    """The second turn finds the first one's tokens, and says so in its usage and its segments."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            id_ = await conversation(client, name="demo", instructions="Be brief.")
            first = await client.end(await client.begin(conversation=id_, max_output_tokens=8))
            usage = first["response"]["usage"]
            assert first["response"]["conversation"] == {"id": id_}
            second = await client.begin("And now?", conversation=id_, max_output_tokens=8)
            end = await client.end(second)
            found = end["response"]["usage"]["input_tokens_details"]["cached_tokens"]
            assert found >= usage["input_tokens"] + usage["output_tokens"] - 2
            cache = await client.until(
                lambda e: e["type"] == "response.cache" and e["response_id"] == second
            )
            assert cache["cached_tokens"] == found
            assert {part["state"] for part in cache["segments"]} == {"memory", "computed"}
            assert end["response"]["x"]["conversation"] == id_
            held_to_its_numbers(client.seen, second)

    serve_sockets(body, settings)


def test_a_fork_on_another_lane_runs_beside_the_first(settings: LocalSettings) -> None:
    """previous_response_id goes on from any response; each event says which lane it is on."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            id_ = await conversation(client)
            root = await client.begin(conversation=id_, stream_id="main", max_output_tokens=4)
            await client.end(root)
            main = await client.begin(
                "on", conversation=id_, stream_id="main", max_output_tokens=400, x=ENDLESS
            )
            fork = await client.begin(
                "aside", previous_response_id=root, stream_id="alt", max_output_tokens=4
            )
            ended = await client.end(fork)
            assert ended["response"]["previous_response_id"] == root
            assert not any(
                event["type"] == "response.incomplete" and event["response"]["id"] == main
                for event in client.seen
            ), "the fork did not wait"
            await client.send("response.cancel", response_id=main)
            await client.end(main)
            for response, lane in ((main, "main"), (fork, "alt")):
                held_to_its_numbers(client.seen, response, lane)
            view = await client.ask("session.get", session_id=id_)
            texts = [message["text"] for message in view["messages"] if message["role"] == "user"]
            assert texts == ["Hi", "on"], "a fork moves no tip"

    with slowed(0.01):
        serve_sockets(body, settings)


def test_a_lane_answers_one_after_the_other(settings: LocalSettings) -> None:
    """Turns of one lane and one conversation need not wait for each other's end to be sent."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            id_ = await conversation(client)
            asked = [
                await client.send(
                    "response.create", input=f"turn {n}", conversation=id_, max_output_tokens=5
                )
                for n in range(4)
            ]
            order = []
            for _ in asked:
                created = await client.next("response.created")
                order.append(created["in_reply_to"])
                await client.end(created["response"]["id"])
            assert order == asked

    serve_sockets(body, settings)


def test_more_turns_or_lanes_than_allowed_are_refused(settings: LocalSettings) -> None:
    """Four may wait in a lane and eight lanes be in use; the refusals carry their numbers."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            first = await client.begin(stream_id="lane-0", max_output_tokens=400, x=ENDLESS)
            fields = {"input": "Hi", "max_output_tokens": 2}
            waiting = [
                await client.send("response.create", stream_id="lane-0", **fields) for _ in range(4)
            ]
            refused = await client.ask("response.create", stream_id="lane-0", **fields)
            assert (refused["status"], refused["stream_id"]) == (429, "lane-0")
            assert refused["error"]["code"] == "rate_limit_exceeded"
            assert refused["error"]["limit"] == 4
            lanes = [
                await client.begin(stream_id=f"lane-{n}", max_output_tokens=400, x=ENDLESS)
                for n in range(1, 8)
            ]
            refused = await client.ask("response.create", stream_id="lane-8", **fields)
            assert refused["error"]["code"] == "websocket_stream_limit_reached"
            assert refused["error"]["limit"] == 8
            assert refused["error"]["retry_after_ms"] > 0
            for response in (first, *lanes):
                await client.send("response.cancel", response_id=response)
                await client.end(response)
            for _ in waiting:
                await client.next("response.incomplete")
            await client.end(await client.begin(stream_id="lane-9", max_output_tokens=2))

    with slowed(0.01):
        serve_sockets(body, settings)


def test_warming_up_computes_and_says_nothing(settings: LocalSettings) -> None:
    """generate=false completes without output; the turn after it finds the prompt."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            text = "a rather long question " * 5
            warm = await client.end(await client.begin(text, generate=False))
            assert (warm["type"], warm["response"]["output"]) == ("response.completed", [])
            again = await client.end(await client.begin(text, max_output_tokens=2))
            usage = again["response"]["usage"]
            assert usage["input_tokens_details"]["cached_tokens"] == usage["input_tokens"] - 1

    serve_sockets(body, settings)


def test_siblings_share_one_prefill(settings: LocalSettings) -> None:
    """x.n answers to one question, and n more later: each its own text, all of one prompt."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            id_ = await conversation(client)
            text = "tell me something " * 6
            fields = {"temperature": 2.0, "max_output_tokens": 40, "x": {"n": 3, **ENDLESS}}
            first = await client.begin(text, conversation=id_, **fields)
            others = [await client.next("response.created") for _ in range(2)]
            ends = [
                await client.end(response)
                for response in (first, *(event["response"]["id"] for event in others))
            ]
            assert [end["response"]["x"]["seed"] for end in ends] == [1, 2, 3]
            assert len({text_of(end) for end in ends}) == 3
            usages = [end["response"]["usage"] for end in ends]
            assert len({usage["input_tokens"] for usage in usages}) == 1
            for usage in usages[1:]:
                assert usage["input_tokens_details"]["cached_tokens"] > 0
            again = await client.ask(
                "response.regenerate", response_id=first, n=2, max_output_tokens=4
            )
            await client.end(again["response"]["id"])
            await client.next("response.incomplete")
            view = await client.ask("session.get", session_id=id_)
            assert [message["text"] for message in view["messages"]][1] == text_of(ends[0])

    serve_sockets(body, settings)


def test_a_cancelled_response_ends_once(settings: LocalSettings) -> None:
    """Its end is the answer; again is nothing; and the next turn works at once."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            id_ = await conversation(client)
            running = await client.begin(conversation=id_, max_output_tokens=400, x=ENDLESS)
            await client.next("response.output_text.delta")
            for _ in range(3):
                await client.send("response.cancel", response_id=running)
            end = await client.end(running)
            assert end["response"]["status"] == "cancelled"
            assert end["response"]["incomplete_details"] == {"reason": "interrupted"}
            await client.send("response.cancel", response_id=running)
            unknown = await client.ask("response.cancel", response_id="resp_nobody")
            assert (unknown["status"], unknown["error"]["code"]) == (404, "response_not_found")
            await client.end(await client.begin("next", conversation=id_, max_output_tokens=2))
            view = await client.ask("session.get", session_id=id_)
            assert view["messages"][1]["status"] == "interrupted"
            assert view["messages"][1]["text"] == text_of(end)
            held_to_its_numbers(client.seen, running)

    with slowed(0.01):
        serve_sockets(body, settings)


def test_two_sockets_on_one_conversation(settings: LocalSettings) -> None:
    """The second is refused and told when to come back, or waits, or interrupts the first."""

    async def body(server: Server) -> None:
        async with server.client() as one, server.client() as two:
            id_ = await conversation(one)
            running = await one.begin("one", conversation=id_, max_output_tokens=400, x=ENDLESS)
            refused = await two.ask("response.create", input="two", conversation=id_)
            assert (refused["status"], refused["error"]["code"]) == (409, "conversation_locked")
            assert refused["error"]["retry_after_ms"] > 0
            queued = await two.send(
                "response.create",
                input="three",
                conversation=id_,
                max_output_tokens=400,
                x={"on_busy": "queue", **ENDLESS},
            )
            await one.send("response.cancel", response_id=running)
            await one.end(running)
            third = await two.next("response.created")
            assert third["in_reply_to"] == queued
            fourth = await one.begin(
                "four", conversation=id_, max_output_tokens=2, x={"on_busy": "interrupt"}
            )
            assert (await two.end(third["response"]["id"]))["response"]["status"] == "cancelled"
            await one.end(fourth)
            view = await two.ask("session.get", session_id=id_)
            texts = [message["text"] for message in view["messages"] if message["role"] == "user"]
            assert texts == ["one", "three", "four"]

    with slowed(0.01):
        serve_sockets(body, settings)


def test_an_event_that_is_sent_again_is_the_same_response(settings: LocalSettings) -> None:
    """While it runs, after its end, on another socket; with other content it is refused."""

    async def body(server: Server) -> None:
        fields = {"input": "Hi", "max_output_tokens": 40, "x": ENDLESS, "event_id": "mine"}
        async with server.client() as one, server.client() as two:
            first = await one.ask("response.create", **fields)
            second = await two.ask("response.create", **fields)
            id_ = first["response"]["id"]
            assert second["response"]["id"] == id_
            assert text_of(await one.end(id_)) == text_of(await two.end(id_))
            third = await one.ask("response.create", **fields)
            assert third["response"]["id"] == id_
            await one.end(id_)
            one.forget()
            conflict = await one.ask("response.create", **fields | {"input": "Bye"})
            assert (conflict["status"], conflict["error"]["code"]) == (409, "idempotency_conflict")

    with slowed(0.01):
        serve_sockets(body, settings)


def test_what_is_not_to_be_stored_goes_with_the_socket(settings: LocalSettings) -> None:
    """store=false: it can be gone on from as long as the connection lasts, and then never."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            first = await client.begin(store=False, max_output_tokens=4)
            await client.end(first)
            second = await client.begin(
                "more", previous_response_id=first, store=False, max_output_tokens=4
            )
            await client.end(second)
            running = await client.begin(store=False, max_output_tokens=400, x=ENDLESS)
        await settled(lambda: not server.host.running)
        async with server.client() as client:
            for response in (first, second, running):
                gone = await client.ask("response.resume", response_id=response)
                assert gone["error"]["code"] == "response_not_found"
            assert (await client.ask("session.list"))["sessions"] == []

    with slowed(0.01):
        serve_sockets(body, settings)


def test_only_so_much_is_kept_that_is_not_to_be_stored(
    settings: LocalSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many on one connection the oldest goes; one that still runs does not."""
    monkeypatch.setattr(socket_responses, "MAX_UNKEPT", 3)

    async def body(server: Server) -> None:
        async with server.client() as client:
            running = await client.begin(
                store=False, stream_id="long", max_output_tokens=400, x=ENDLESS
            )
            short = []
            for _ in range(5):
                short.append(await client.begin(store=False, max_output_tokens=2))
                await client.end(short[-1])
            gone = await client.ask("response.create", input="x", previous_response_id=short[0])
            assert gone["error"]["code"] == "previous_response_not_found"
            await client.end(
                await client.begin("on", previous_response_id=short[-1], max_output_tokens=2)
            )
            await client.send("response.cancel", response_id=running)
            assert (await client.end(running))["response"]["output"]

    with slowed(0.01):
        serve_sockets(body, settings)


def test_a_conversation_is_watched_from_another_device(settings: LocalSettings) -> None:
    """What runs and what begins is told to those who watch, once; a change of its name too."""

    async def body(server: Server) -> None:
        async with server.client() as phone, server.client() as desk:
            id_ = await conversation(desk)
            first = await desk.begin("one", conversation=id_, max_output_tokens=400, x=ENDLESS)
            watched = await phone.ask("session.subscribe", session_id=id_)
            assert watched["running"] == first
            await desk.ask("session.subscribe", session_id=id_)
            await desk.send("response.cancel", response_id=first)
            assert text_of(await phone.end(first)) == text_of(await desk.end(first))
            second = await desk.begin("two", conversation=id_, max_output_tokens=5)
            assert text_of(await phone.end(second)) == text_of(await desk.end(second))
            held_to_its_numbers(desk.seen, second)
            held_to_its_numbers(phone.seen, second)
            await desk.ask("session.update", session_id=id_, name="renamed")
            assert (await phone.next("session.updated"))["session"]["name"] == "renamed"
            await phone.ask("session.unsubscribe", session_id=id_)
            third = await desk.begin("three", conversation=id_, max_output_tokens=5)
            await desk.end(third)
            await phone.ask("ping")
            assert not any(third in str(event) for event in phone.seen)

    with slowed(0.01):
        serve_sockets(body, settings)


def test_an_unread_response_is_cancelled_after_its_grace(settings: LocalSettings) -> None:
    """The socket's end is not the answer's; only when nobody comes back in time."""
    impatient = ServeSettings(port=0, disconnect_grace_s=0.5)

    async def body(server: Server) -> None:
        async with server.client() as client:
            short = await client.begin("one", max_output_tokens=400, x=ENDLESS)
            long = await client.begin(
                "two", stream_id="b", max_output_tokens=400, x={"detach_s": -1, **ENDLESS}
            )
        await asyncio.sleep(0.05)
        assert {short, long} <= set(server.host.running), "not at once"
        await settled(lambda: short not in server.host.running)
        assert long in server.host.running
        async with server.client() as client:
            await client.send("response.resume", response_id=short)
            end = await client.end(short)
            assert end["response"]["incomplete_details"] == {"reason": "interrupted"}
            await client.send("response.cancel", response_id=long)
        await settled(lambda: not server.host.running)

    with slowed(0.02):
        serve_sockets(body, settings, impatient)
