"""Tests of server/conversations_http.py: a real server, a real socket, a tiny model."""

from __future__ import annotations

from typing import Any

from radixchat.server.local import LocalSettings
from radixchat.tests.server.sites import Site, at_site

ITEMS = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "Hi"},
    {
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
    },
]
ALL = "/v1/conversations"


async def answer(site: Site, conversation: str, text: str) -> Any:
    """One turn."""
    asked = {"conversation": conversation, "input": text, "max_output_tokens": 4}
    return await site.call("POST", "/v1/responses", asked)


async def said(site: Site, conversation: str) -> list[tuple[str, str]]:
    """Roles and texts on the path, oldest first."""
    page = await site.call("GET", f"{ALL}/{conversation}/items?order=asc&limit=100")
    return [(item["role"], item["content"][0]["text"]) for item in page["data"]]


def test_a_conversation_begins_with_items(settings: LocalSettings) -> None:
    """The system message heads it, the others follow as they were given, and are answered on."""

    async def body(site: Site) -> None:
        made = await site.call("POST", ALL, {"items": ITEMS, "metadata": {"a": "b"}, "name": "N"})
        assert made["object"] == "conversation"
        assert made["metadata"] == {"a": "b"}
        assert (made["name"], made["opening"]) == ("N", "Hi")
        assert made["instructions"] == "You are terse."
        assert made["num_turns"] == 1
        assert await site.call("GET", f"{ALL}/{made['id']}") == made
        turn = await answer(site, made["id"], "And?")
        assert turn["conversation"] == {"id": made["id"]}
        expected = [("system", "You are terse."), ("user", "Hi"), ("assistant", "Hello.")]
        text = turn["output"][0]["content"][0]["text"]
        expected += [("user", "And?"), ("assistant", text)]
        assert await said(site, made["id"]) == expected

    at_site(body, settings)


def test_an_empty_body_is_an_empty_conversation(settings: LocalSettings) -> None:
    """Nothing needs to be said of it, and its list of items has none."""

    async def body(site: Site) -> None:
        made = await site.call("POST", ALL)
        page = await site.call("GET", f"{ALL}/{made['id']}/items")
        empty = {"object": "list", "data": [], "first_id": "", "last_id": "", "has_more": False}
        assert page == empty

    at_site(body, settings)


def test_items_come_in_pages(settings: LocalSettings) -> None:
    """Every page begins after the last of the one before; together they are all."""

    async def body(site: Site) -> None:
        made = await site.call("POST", ALL, {"items": ITEMS})
        path = f"{ALL}/{made['id']}/items"
        expected = ["You are terse.", "Hi", "Hello."]
        for order, texts in (("asc", expected), ("desc", expected[::-1])):
            first = await site.call("GET", f"{path}?order={order}&limit=2")
            after = first["last_id"]
            rest = await site.call("GET", f"{path}?order={order}&limit=2&after={after}")
            items = first["data"] + rest["data"]
            assert [item["content"][0]["text"] for item in items] == texts
            assert first["first_id"] == items[0]["id"]
            assert (len(first["data"]), first["has_more"], rest["has_more"]) == (2, True, False)
        assert await site.call("GET", f"{path}/{items[0]['id']}") == items[0]
        refusal = await site.refused("GET", f"{path}?after=msg_0")
        assert refusal == (400, "invalid_value", "after")
        assert await site.refused("GET", f"{path}/msg_0") == (404, "item_not_found", "item_id")

    at_site(body, settings)


def test_items_are_added_and_never_erased(settings: LocalSettings) -> None:
    """They come after the tip; what was answered is left behind by moving that."""

    async def body(site: Site) -> None:
        made = await site.call("POST", ALL, {"items": ITEMS})
        path = f"{ALL}/{made['id']}"
        more = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
        added = await site.call("POST", f"{path}/items", {"items": more})
        assert [item["content"][0]["text"] for item in added["data"]] == ["x", "y"]
        turn = await answer(site, made["id"], "left behind")
        refusal = await site.refused("DELETE", f"{path}/items/{added['last_id']}")
        assert refusal == (400, "unsupported_parameter", "item_id")
        stale = {"tip": made["tip"], "expected_tip": added["last_id"]}
        assert (await site.refused("POST", path, stale))[:2] == (409, "conversation_locked")
        now = (await site.call("GET", path))["tip"]
        moved = await site.call("POST", path, {"tip": made["tip"], "expected_tip": now})
        assert moved["tip"] == made["tip"]
        assert ("user", "x") not in await said(site, made["id"])
        tree = (await site.call("GET", f"{path}/tree"))["messages"]
        left = [message["text"] for message in tree if not message["on_path"]]
        assert left[:3] == ["x", "y", "left behind"]
        back = await site.call("POST", path, {"tip": turn["id"]})
        assert back["tip"] == now

    at_site(body, settings)


def test_update(settings: LocalSettings) -> None:
    """What is not given stays; metadata is replaced as a whole."""

    async def body(site: Site) -> None:
        made = await site.call("POST", ALL, {"metadata": {"a": "b"}, "name": "one"})
        path = f"{ALL}/{made['id']}"
        renamed = await site.call("POST", path, {"name": "two"})
        assert (renamed["name"], renamed["metadata"]) == ("two", {"a": "b"})
        changed = await site.call("POST", path, {"metadata": {"c": "d"}})
        assert (changed["name"], changed["metadata"]) == ("two", {"c": "d"})

    at_site(body, settings)


def test_a_fork_shares_the_history(settings: LocalSettings) -> None:
    """It goes on from the response that was named; the other conversation does not see it."""

    async def body(site: Site) -> None:
        made = await site.call("POST", ALL, {"items": ITEMS})
        first = await answer(site, made["id"], "one")
        await answer(site, made["id"], "two")
        before = await said(site, made["id"])
        fork = await site.call("POST", f"{ALL}/{made['id']}/fork", {"at": first["id"], "name": "F"})
        assert fork["name"] == "F"
        assert await said(site, fork["id"]) == before[:5]
        turn = await answer(site, fork["id"], "other")
        history = first["usage"]["total_tokens"]
        assert turn["usage"]["input_tokens_details"]["cached_tokens"] >= history - 1
        assert await said(site, made["id"]) == before

    at_site(body, settings)


def test_conversations_are_listed_latest_first(settings: LocalSettings) -> None:
    """In pages; what holds a lone response is not one."""

    async def body(site: Site) -> None:
        made = [(await site.call("POST", ALL, {"name": str(n)}))["id"] for n in range(3)]
        await site.call("POST", "/v1/responses", {"input": "alone", "max_output_tokens": 1})
        page = await site.call("GET", f"{ALL}?limit=2")
        assert [one["id"] for one in page["data"]] == made[:0:-1]
        assert page["has_more"]
        rest = await site.call("GET", f"{ALL}?limit=2&after={page['last_id']}")
        assert [one["id"] for one in rest["data"]] == made[:1]
        assert not rest["has_more"]

    at_site(body, settings)


def test_search_and_export(settings: LocalSettings) -> None:
    """A message is found by its words, and its conversation is written out."""

    async def body(site: Site) -> None:
        made = await site.call("POST", ALL, {"items": ITEMS, "name": "N"})
        found = await site.call("GET", f"{ALL}/search?query=hello")
        assert [(hit["session_id"], hit["role"]) for hit in found["data"]] == [
            (made["id"], "assistant")
        ]
        assert (await site.call("GET", f"{ALL}/search?query=nowhere"))["data"] == []
        text = await site.http.get(f"{ALL}/{made['id']}/export?format=markdown")
        assert text.headers["content-type"] == "text/markdown; charset=utf-8"
        assert "Hello." in text.text
        exported = await site.http.get(f"{ALL}/{made['id']}/export")
        assert exported.headers["content-type"] == "application/json"
        assert "You are terse." in exported.text

    at_site(body, settings)


def test_delete(settings: LocalSettings) -> None:
    """It is gone, and its part of the cache too."""

    async def body(site: Site) -> None:
        made = await site.call("POST", ALL, {"items": ITEMS})
        await answer(site, made["id"], "one")
        assert await site.call("DELETE", f"{ALL}/{made['id']}") == {
            "id": made["id"],
            "object": "conversation.deleted",
            "deleted": True,
        }
        refusal = await site.refused("GET", f"{ALL}/{made['id']}")
        assert refusal[:2] == (404, "conversation_not_found")
        again = await site.call("POST", ALL, {"items": ITEMS})
        turn = await answer(site, again["id"], "one")
        assert turn["usage"]["input_tokens_details"]["cached_tokens"] == 0

    at_site(body, settings)


def test_nobody_finds_anothers(settings: LocalSettings) -> None:
    """Another key's conversation is neither listed, found nor read."""

    async def body(site: Site) -> None:
        mine, others = ({"Authorization": f"Bearer key-{name}"} for name in "ab")
        made = (await site.http.post(ALL, json={"items": ITEMS}, headers=mine)).json()
        path = f"{ALL}/{made['id']}"
        for method, of in (
            ("GET", ""),
            ("GET", "/items"),
            ("GET", "/tree"),
            ("GET", "/export"),
            ("DELETE", ""),
        ):
            gone = await site.http.request(method, path + of, headers=others)
            assert gone.status_code == 404
        fork = await site.http.post(f"{path}/fork", json={}, headers=others)
        assert fork.status_code == 404
        for list_ in (ALL, f"{ALL}/search?query=hello"):
            assert (await site.http.get(list_, headers=others)).json()["data"] == []
            assert (await site.http.get(list_, headers=mine)).json()["data"] != []

    at_site(body, settings)


REFUSED: tuple[tuple[str, str, Any, int, str, str | None], ...] = (
    ("POST", "", {"items": [{"role": "wizard", "content": "x"}]}, 400, "invalid_value", None),
    ("POST", "", {"items": ITEMS[::-1]}, 400, "invalid_value", "items"),
    ("POST", "", {"items": ITEMS, "instructions": "x"}, 400, "invalid_value", "instructions"),
    ("POST", "", {"metadata": {"k" * 65: "v"}}, 400, "invalid_value", "metadata"),
    ("POST", "/conv_0/items", {"items": []}, 400, "invalid_value", "items"),
    ("GET", "/conv_0", None, 404, "conversation_not_found", None),
    ("GET", "/conv_0/items", None, 404, "conversation_not_found", None),
    ("POST", "/conv_0/fork", {}, 404, "conversation_not_found", None),
    ("GET", "?limit=0", None, 400, "invalid_value", "limit"),
    ("GET", "?order=asc", None, 400, "unsupported_parameter", "order"),
    ("GET", "/search", None, 400, "missing_required_parameter", "query"),
)


def test_refusals(settings: LocalSettings) -> None:
    """Before anything is stored, with the field's name."""

    async def body(site: Site) -> None:
        for method, path, asked, status, code, param in REFUSED:
            seen = await site.refused(method, ALL + path, asked)
            assert seen[:2] == (status, code)
            assert param is None or seen[2] == param
        assert (await site.call("GET", ALL))["data"] == []

    at_site(body, settings)
