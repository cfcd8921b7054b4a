"""session.*, cache.*, prefill.* and server.stats over a socket: what is asked and what comes."""

from __future__ import annotations

import pytest

from radixchat.server.local import LocalSettings
from radixchat.tests.server.sockets import (
    Client,
    Event,
    Server,
    serve_sockets,
    text_of,
)
from radixchat.tests.slow_steps import slowed


async def conversation(client: Client, *texts: str) -> str:
    """One with these turns."""
    created = await client.ask("session.create", name="demo", instructions="Be brief.")
    id_: str = created["session"]["id"]
    for text in texts:
        await client.end(await client.begin(text, conversation=id_, max_output_tokens=6))
    return id_


async def messages(client: Client, conversation: str) -> list[Event]:
    found: list[Event] = (await client.ask("session.get", session_id=conversation))["messages"]
    return found


def test_a_conversation_is_made_named_found_and_erased(settings: LocalSettings) -> None:
    """create, get, list, update, resolve, search, export, delete: each is answered by id."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            id_ = await conversation(client, "where do parrots live")
            got = await client.ask("session.get", session_id=id_)
            assert got["type"] == "session.retrieved"
            assert got["session"]["instructions"] == "Be brief."
            assert got["session"]["num_turns"] == 1
            assert got["session"]["opening"] == "where do parrots live"
            updated = await client.ask(
                "session.update", session_id=id_, name="birds", metadata={"a": "b"}
            )
            assert (updated["session"]["name"], updated["session"]["metadata"]) == (
                "birds",
                {"a": "b"},
            )
            other = await conversation(client)
            listed = await client.ask("session.list", limit=1)
            assert ([s["id"] for s in listed["sessions"]], listed["has_more"]) == ([other], True)
            listed = await client.ask("session.list", limit=1, after=other)
            assert ([s["id"] for s in listed["sessions"]], listed["has_more"]) == ([id_], False)
            assert (await client.ask("session.resolve", prefix=id_[:-1]))["session_id"] == id_
            hits = (await client.ask("session.search", query="parrots"))["hits"]
            assert [(hit["session_id"], hit["role"]) for hit in hits] == [(id_, "user")]
            exported = await client.ask("session.export", session_id=id_, format="markdown")
            assert "parrots" in exported["text"]
            assert (await client.ask("session.open", session_id=id_))["type"] == "session.opened"
            assert (await client.ask("session.close", session_id=id_))["type"] == "session.closed"
            assert (await client.ask("session.delete", session_id=id_))["session_id"] == id_
            gone = await client.ask("session.get", session_id=id_)
            assert (gone["status"], gone["error"]["code"]) == (404, "conversation_not_found")
            assert (await client.ask("session.search", query="parrots"))["hits"] == []

    serve_sockets(body, settings)


def test_undo_fork_and_tree(settings: LocalSettings) -> None:
    """A turn is taken off and stays in the tree; a fork goes on from a message and copies none."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            id_ = await conversation(client, "one", "two")
            before = await messages(client, id_)
            undone = await client.ask("session.undo", session_id=id_)
            assert undone["message"]["text"] == "two"
            assert undone["session"]["num_turns"] == 1
            tree = (await client.ask("session.tree", session_id=id_))["messages"]
            assert [m["id"] for m in tree] == [m["id"] for m in before]
            assert [m["on_path"] for m in tree] == [True] * 3 + [False] * 2
            forked = await client.ask(
                "session.fork", session_id=id_, at=before[-1]["id"], name="other"
            )
            assert (forked["from"], forked["session"]["name"]) == (id_, "other")
            assert await messages(client, forked["session"]["id"]) == before
            moved = await client.ask("session.update", session_id=id_, tip=before[-1]["id"])
            assert moved["session"]["num_turns"] == 2
            stale = await client.ask(
                "session.update",
                session_id=id_,
                tip=before[2]["id"],
                expected_tip=before[0]["id"],
            )
            assert stale["error"]["code"] == "conversation_locked"

    serve_sockets(body, settings)


def test_another_principal_sees_nothing(settings: LocalSettings) -> None:
    """With another key, ids that exist are simply not found: for every event that takes one."""

    async def body(server: Server) -> None:
        keys = server.host.store.keys
        mine = await server.host.database(keys.add, "mine")
        theirs = await server.host.database(keys.add, "theirs")
        headers = [{"Authorization": f"Bearer {key}"} for key in (mine, theirs)]
        async with (
            server.client(additional_headers=headers[0]) as owner,
            server.client(additional_headers=headers[1]) as other,
        ):
            id_ = await conversation(owner, "secret")
            response = await owner.begin("more", conversation=id_, max_output_tokens=2)
            await owner.end(response)
            for type_, fields in (
                ("session.get", {"session_id": id_}),
                ("session.update", {"session_id": id_, "name": "x"}),
                ("session.undo", {"session_id": id_}),
                ("session.delete", {"session_id": id_}),
                ("session.fork", {"session_id": id_}),
                ("session.tree", {"session_id": id_}),
                ("session.export", {"session_id": id_}),
                ("session.subscribe", {"session_id": id_}),
                ("session.resolve", {"prefix": id_}),
                ("prefill.draft", {"session_id": id_, "revision": 1, "text": "x"}),
                ("prefill.drop", {"session_id": id_}),
                ("cache.inspect", {"session_id": id_}),
                ("cache.tree", {"session_id": id_}),
                ("response.resume", {"response_id": response}),
                ("response.cancel", {"response_id": response}),
                ("response.regenerate", {"response_id": response}),
                ("response.create", {"input": "Hi", "conversation": id_}),
                ("response.create", {"input": "Hi", "previous_response_id": response}),
            ):
                refused = await other.ask(type_, **fields)
                assert refused["status"] == 404, (type_, refused)
            assert (await other.ask("session.list"))["sessions"] == []
            assert (await other.ask("session.search", query="secret"))["hits"] == []
            assert (await other.ask("cache.tree"))["nodes"] == []
            assert len(await messages(owner, id_)) == 5

    serve_sockets(body, settings)


def test_the_cache_is_shown(settings: LocalSettings) -> None:
    """What the next turn would find, whose tokens they are, and the tree with the path marked."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            id_ = await conversation(client, "one", "two")
            seen = await client.ask("cache.inspect", session_id=id_, input="and three")
            assert seen["type"] == "cache.inspected"
            assert 0 < seen["cached_tokens"] < seen["input_tokens"]
            assert seen["segments"][-1]["to"] == seen["input_tokens"]
            end = await client.end(
                await client.begin("and three", conversation=id_, max_output_tokens=2)
            )
            usage = end["response"]["usage"]
            assert usage["input_tokens"] == seen["input_tokens"]
            assert usage["input_tokens_details"]["cached_tokens"] == seen["cached_tokens"]
            tree = await client.ask("cache.tree", session_id=id_)
            assert any(node["on_path"] for node in tree["nodes"])
            assert tree["pool_tokens"] >= tree["cached_tokens"] > 0
            stats = await client.ask("server.stats")
            assert stats["stats"]["requests"] >= 3

    serve_sockets(body, settings)


def test_what_is_typed_is_computed_ahead(settings: LocalSettings) -> None:
    """A draft is computed before it is sent; a newer one ends it; a dropped one leaves nothing."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            id_ = await conversation(client, "one")
            text = "a question that takes its time to be typed"
            older = await client.send("prefill.draft", session_id=id_, revision=1, text=text[:20])
            newer = await client.send("prefill.draft", session_id=id_, revision=2, text=text)
            ready = {e["in_reply_to"]: e for e in [await client.next("prefill.ready")] * 1}
            ready |= {e["in_reply_to"]: e for e in [await client.next("prefill.ready")]}
            assert ready[older]["tokens"] <= ready[newer]["tokens"]
            assert (ready[newer]["session_id"], ready[newer]["revision"]) == (id_, 2)
            plain = await client.ask("cache.inspect", session_id=id_)
            seen = await client.ask("cache.inspect", session_id=id_, input=text)
            assert seen["cached_tokens"] > plain["cached_tokens"] + 20
            dropped = await client.ask("prefill.drop", session_id=id_)
            assert dropped["type"] == "prefill.dropped"
            assert len(await messages(client, id_)) == 3, "a draft is stored nowhere"

    serve_sockets(body, settings)


def test_replies_keep_the_order_of_what_was_asked(settings: LocalSettings) -> None:
    """A hundred events in one go are answered one by one, and a ping need not wait for them."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            id_ = await conversation(client, "one")
            asked = [await client.send("session.get", session_id=id_) for _ in range(100)]
            replies = [(await client.next("session.retrieved"))["in_reply_to"] for _ in asked]
            assert replies == asked

    serve_sockets(body, settings)


def test_a_bug_ends_one_command_and_no_other(
    settings: LocalSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """server_error, without what went wrong inside; the socket and the response go on."""

    async def body(server: Server) -> None:
        async with server.client() as client:
            running = await client.begin(max_output_tokens=60, x={"ignore_eos": True})

            async def broken(*_: object, **__: object) -> None:
                raise ZeroDivisionError("a path and a secret")

            monkeypatch.setattr(server.host.service("local"), "search", broken)
            error = await client.ask("session.search", query="x")
            assert (error["status"], error["error"]["code"]) == (500, "server_error")
            assert "secret" not in str(error)
            assert text_of(await client.end(running))

    with slowed(0.005):
        serve_sockets(body, settings)
