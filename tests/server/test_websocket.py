"""The WebSocket's handshake and its end: who is let in, what is refused, how it is closed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from websockets.exceptions import InvalidStatus

from radixchat.server.limits import Limits
from radixchat.server.local import LocalSettings
from radixchat.server.serve_settings import ServeSettings
from radixchat.tests.server.sockets import Event, Server, held, serve_sockets, settled

SMALL = ServeSettings(port=0, limits=Limits(max_message_bytes=4096))


def test_the_subprotocol_says_hello(settings: LocalSettings) -> None:
    """A client that asks for radixchat.v1 is greeted, and told the limits."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            assert client.socket.subprotocol == "radixchat.v1"
            hello = client.hello
            assert hello["protocol"] == 1
            assert hello["boot_id"] == server.host.boot_id
            assert hello["limits"] == {
                "max_message_bytes": 4 << 20,
                "max_lanes": 8,
                "max_queued_per_lane": 4,
                "n_ctx": server.host.n_ctx,
            }
            assert {"cache", "resume", "sessions"} <= set(hello["features"])

    serve_sockets(body, settings)


def test_a_plain_client_sees_nothing_of_ours(settings: LocalSettings) -> None:
    """Without hello there are OpenAI's events only, and ours are refused without harm."""

    async def body(server: Server) -> None:
        async with server.client(hello=False) as client:
            refused = await client.ask("ping", t=1)
            assert refused["error"]["code"] == "extension_required"
            await client.send("response.create", input="Hi", max_output_tokens=3)
            await client.next("response.incomplete")
            types = {event["type"] for event in client.seen}
            assert types == {
                "error",
                "response.created",
                "response.in_progress",
                "response.output_item.added",
                "response.content_part.added",
                "response.output_text.delta",
                "response.output_text.done",
                "response.content_part.done",
                "response.output_item.done",
                "response.incomplete",
            }
            assert all("in_reply_to" not in event for event in client.seen)

    serve_sockets(body, settings)


def test_hello_may_be_said_later(settings: LocalSettings) -> None:
    """client.hello turns our events on; of a protocol that nobody knows it does not."""

    async def body(server: Server) -> None:
        async with server.client(hello=False) as client:
            refused = await client.ask("client.hello", protocol=7)
            assert refused["error"]["param"] == "protocol"
            hello = await client.ask("client.hello", protocol=1, features=["cache"])
            assert hello["type"] == "server.hello"
            assert await client.ask("ping", t=3) == {
                "type": "pong",
                "t": 3,
                "in_reply_to": client.seen[-1]["in_reply_to"],
            }

    serve_sockets(body, settings)


def test_what_is_wrong_is_told_and_the_socket_stays(settings: LocalSettings) -> None:
    """Invalid JSON, no object, an unknown type, a wrong field, a bad lane: an error each."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            for text, code in (
                ("{", "invalid_json"),
                ('{"type": "ping", "event_id": "\\ud800"}', "invalid_json"),
                ('{"type": "ping", "t": NaN}', "invalid_value"),
                ("[]", "invalid_value"),
                ('{"type": "response.fly", "event_id": "x"}', "invalid_value"),
                ('{"event_id": "x"}', "missing_required_parameter"),
                ('{"type": "response.create", "input": 7}', "invalid_value"),
                ('{"type": "response.create"}', "missing_required_parameter"),
                (
                    '{"type": "response.create", "input": "Hi", "stream_id": "a b"}',
                    "invalid_stream_id",
                ),
                ('{"type": "response.create", "input": "Hi", "model": "gpt"}', "model_not_found"),
                ('{"type":"response.steer","previous_response_id":"resp_1"}', "unsupported"),
            ):
                await client.socket.send(text)
                error = await client.next("error")
                assert error["error"]["code"].startswith(code), (text, error)
                assert error["status"] in (400, 404)
            await client.end(await client.begin(max_output_tokens=2))

    serve_sockets(body, settings)


def test_ten_invalid_messages_in_a_row_are_enough(settings: LocalSettings) -> None:
    """1008 after the tenth; one that is right begins the count again."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            for _ in range(3):
                for _ in range(9):
                    await client.socket.send("nonsense")
                await client.ask("ping", t=1)
            for _ in range(10):
                await client.socket.send("nonsense")
            assert await client.closed() == (1008, "10 invalid messages in a row")
            assert sum(event["type"] == "error" for event in client.seen) == 37

    serve_sockets(body, settings)


def test_a_binary_frame_is_not_spoken_here(settings: LocalSettings) -> None:
    """1003, and no other connection minds."""

    async def body(server: Server) -> None:
        async with server.client() as other, server.client() as client:
            await client.socket.send(b"\x00\x01")
            assert (await client.closed())[0] == 1003
            await other.ask("ping", t=1)

    serve_sockets(body, settings)


def test_a_message_that_is_too_big_is_told_so(settings: LocalSettings) -> None:
    """With both numbers, and the socket stays; what is far too big ends it with 1009."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            too_big = json.dumps({"type": "response.create", "input": "x" * 5000})
            await client.socket.send(too_big)
            error = await client.next("error")
            assert error["status"] == 413
            assert error["error"]["code"] == "message_too_big"
            assert error["error"]["max_message_bytes"] == 4096
            assert error["error"]["bytes"] == len(too_big)
            await client.ask("ping", t=1)
            await client.socket.send("x" * 10_000)
            assert (await client.closed())[0] == 1009
        async with server.client() as client:
            await client.ask("ping", t=1)

    serve_sockets(body, settings, SMALL)


def test_three_megabytes_are_refused_and_the_socket_stays(settings: LocalSettings) -> None:
    """Far more than is allowed in one message, in one frame: an error, and the next turn works."""
    limits = Limits(max_message_bytes=2 << 20)

    async def body(server: Server) -> None:
        async with server.client() as client:
            await client.send("response.create", input="word " * 600_000)
            error = await client.next("error")
            assert error["error"]["code"] == "message_too_big"
            error = await client.ask("response.create", input="word " * 1000)
            assert error["error"]["code"] == "context_length_exceeded"
            assert error["error"]["n_ctx"] == server.host.n_ctx
            await client.end(await client.begin(max_output_tokens=2))

    serve_sockets(body, settings, ServeSettings(port=0, limits=limits))


def test_the_key_may_be_the_first_message(settings: LocalSettings) -> None:
    """auth_required, auth, auth_ok; a wrong key, no key and no word in time are turned away."""
    by_message = ServeSettings(port=0, auth_mode="message")
    impatient = replace(by_message, limits=Limits(auth_seconds=0.3))

    async def body(server: Server) -> None:
        key = await server.host.database(server.host.store.keys.add, "somebody")

        async def first(message: str | bytes) -> tuple[list[Event], int | None]:
            async with server.client(hello=False) as client:
                assert (await client.receive())["type"] == "auth_required"
                await client.socket.send(message)
                seen = [await client.receive()]
                if seen[0]["type"] == "auth_ok":
                    await client.end(await client.begin(max_output_tokens=2))
                    return seen, None
                return seen, (await client.closed())[0]

        auth = {"type": "auth", "event_id": "a", "token": key}
        assert await first(json.dumps(auth)) == ([{"type": "auth_ok", "in_reply_to": "a"}], None)
        for message in (json.dumps(auth | {"token": key + "x"}), '{"type":"ping"}', "{"):
            seen, code = await first(message)
            assert (seen[0]["type"], code) == ("auth_invalid", 3000)
            assert key not in seen[0]["message"]
        assert server.edge.rates.num_sockets == 0
        with pytest.raises(InvalidStatus) as refused:
            async with server.client(
                hello=False, additional_headers={"Authorization": "Bearer wrong"}
            ):
                pass
        assert refused.value.response.status_code == 401

    async def silence(server: Server) -> None:
        async with server.client(hello=False) as client:
            assert (await client.receive())["type"] == "auth_required"
            assert (await client.closed())[0] == 3008
            assert len(client.seen) == 1
        assert server.edge.rates.num_sockets == 0

    serve_sockets(body, settings, by_message)
    serve_sockets(silence, settings, impatient)


@pytest.mark.parametrize("mode", ["header", "message"])
def test_a_revoked_key_ends_its_sockets(settings: LocalSettings, mode: str) -> None:
    """Those of another key stay; it does not matter how the key came."""
    often = ServeSettings(port=0, auth_mode=mode, limits=Limits(key_seconds=0.05))

    async def body(server: Server) -> None:
        keys = server.host.store.keys
        anna, ben = [await server.host.database(keys.add, name) for name in ("anna", "ben")]
        async with server.client(
            hello=False, additional_headers={"Authorization": f"Bearer {ben}"}
        ) as other:
            headers = {"Authorization": f"Bearer {anna}"} if mode == "header" else {}
            async with server.client(hello=False, additional_headers=headers) as client:
                if mode == "message":
                    await client.next("auth_required")
                    await client.send("auth", token=anna)
                    await client.next("auth_ok")
                await client.end(await client.begin(max_output_tokens=2))
                await server.host.database(keys.revoke, "anna")
                assert await client.closed() == (3000, "this key is not valid any more")
            await other.end(await other.begin(max_output_tokens=2))

    serve_sockets(body, settings, often)


def test_sockets_without_their_key_are_counted(settings: LocalSettings) -> None:
    """So many may be about to say who they are; one more is told to come again, and then comes in.

    Those that have said it are counted as theirs.
    """
    limits = Limits(max_connections=2, key_seconds=0.05)
    by_message = ServeSettings(port=0, auth_mode="message", limits=limits)

    async def body(server: Server) -> None:
        key = await server.host.database(server.host.store.keys.add, "somebody")
        async with server.client(hello=False) as first, server.client(hello=False):
            await first.next("auth_required")
            async with server.client(hello=False) as third:
                error = await third.next("error")
                assert (error["status"], error["error"]["limit"]) == (429, 2)
                assert error["error"]["retry_after_ms"] > 0
                assert (await third.closed())[0] == 1013
            await first.send("auth", token=key)
            await first.next("auth_ok")
            assert server.edge.rates.num_sockets == 2
            async with server.client(hello=False) as fourth:
                await fourth.next("auth_required")

    serve_sockets(body, settings, by_message)


def test_a_server_that_leaves_says_so_and_closes(settings: LocalSettings) -> None:
    """server.draining; what runs ends; nothing new begins; then 1012 for everybody."""

    async def body(server: Server) -> None:
        async with server.client() as client, server.client(hello=False) as plain:
            running = await client.begin(max_output_tokens=60)
            server.edge.departure.drain(20)
            server.host.stop_accepting()
            draining = await client.next("server.draining")
            assert 0 < draining["deadline_s"] <= 20
            refused = await client.ask("response.create", input="more")
            assert (refused["status"], refused["error"]["code"]) == (503, "server_overloaded")
            assert refused["error"]["retry_after_ms"] > 0
            await client.end(running)
            await server.host.drain(20)
            server.edge.departure.close()
            assert (await client.closed())[0] == 1012
            assert (await plain.closed())[0] == 1012
            assert plain.seen == []

    serve_sockets(body, settings)


@pytest.mark.usefixtures("unhurried")
def test_an_end_that_is_cut_short_is_told_before_the_close(settings: LocalSettings) -> None:
    """At the deadline a running response ends as "server_shutdown", and its client hears it."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            running = await client.begin(max_output_tokens=400, x={"ignore_eos": True})
            await client.next("response.output_text.delta")
            server.edge.departure.drain(0)
            await server.host.drain(0)
            server.edge.departure.close()
            end = await client.end(running)
            assert end["response"]["incomplete_details"]["reason"] == "server_shutdown"
            assert (await client.closed())[0] == 1012

    serve_sockets(body, settings)


@pytest.mark.slow
def test_a_long_silence_is_broken(settings: LocalSettings) -> None:
    """While an answer is waited for: a heartbeat with its id, to those who know of it."""

    async def body(server: Server) -> None:
        async with server.client() as client, server.client(hello=False) as plain:
            async with held(server):
                response = await client.begin(max_output_tokens=2)
                await plain.begin(max_output_tokens=2)
                assert (await client.next("server.heartbeat"))["responses"] == [response]
            await client.end(response)
            await plain.next("response.incomplete")
            assert not any(event["type"].startswith("server.") for event in plain.seen)

    serve_sockets(body, settings)


def test_ends_are_counted_by_code(settings: LocalSettings) -> None:
    """Whoever closes, and whoever goes without a word."""

    async def body(server: Server) -> None:
        metrics = server.edge.metrics
        async with server.client():
            assert metrics.sockets_open == 1
        async with server.client() as client:
            await client.socket.close(4000)
        async with server.client() as client:
            await client.hang_up()
        await settled(lambda: not metrics.sockets_open)
        assert metrics.sockets_opened == 3
        assert metrics.sockets_closed == {"1000": 1, "other": 1, "1005": 1}

    serve_sockets(body, settings)
