"""Tests of server/responses_http.py: a real server, a real socket, a tiny model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from radixchat.server.local import LocalSettings
from radixchat.tests.server.sites import Site, at_site
from radixchat.tests.slow_steps import slowed

SHORT = {"input": "Hello there", "max_output_tokens": 6, "temperature": 0}
LONG = {**SHORT, "max_output_tokens": 300, "x": {"ignore_eos": True, "speculate": False}}


def text_of(response: Any) -> str:
    """The answer's text of a response object."""
    return "".join(part["text"] for item in response["output"] for part in item["content"])


def deltas(events: list[dict[str, Any]]) -> str:
    """The text of a stream."""
    return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")


async def stream(site: Site, method: str, path: str, body: Any = None) -> list[dict[str, Any]]:
    """All events of a stream."""
    async with site.events(method, path, body) as events:
        return [event async for event in events]


async def first_delta(site: Site, body: Any) -> dict[str, Any]:
    """Begin a response, read to its first text, and hang up; the event with that."""
    async with site.events("POST", "/v1/responses", {**body, "stream": True}) as events:
        async for event in events:
            if event["type"] == "response.created":
                response = event["response"]["id"]
            if event["type"] == "response.output_text.delta":
                return {**event, "response_id": response}
    raise AssertionError("there was no text")


async def ended(site: Site, response: str) -> Any:
    """The response once nothing runs."""
    await site.idle()
    return await site.call("GET", f"/v1/responses/{response}")


def test_an_answer_is_found_again(settings: LocalSettings) -> None:
    """What is answered at once, is retrieved, and is read as a stream is the same response."""

    async def body(site: Site) -> None:
        made = await site.call("POST", "/v1/responses", SHORT)
        assert made["usage"]["output_tokens"] == 6
        assert made["status"] == "incomplete"
        assert await site.call("GET", f"/v1/responses/{made['id']}") == made
        events = await stream(site, "GET", f"/v1/responses/{made['id']}?stream=true")
        assert deltas(events) == text_of(made)
        assert events[-1]["response"] == made

    at_site(body, settings)


def test_a_stream_is_numbered_without_a_hole(settings: LocalSettings) -> None:
    """Numbers begin with 0 and rise; deltas that were merged say which is their first."""

    async def body(site: Site) -> None:
        events = await stream(site, "POST", "/v1/responses", {**SHORT, "stream": True})
        expected = 0
        for event in events:
            first = event.get("x", {}).get("first_sequence_number", event["sequence_number"])
            assert first == expected
            expected = event["sequence_number"] + 1
        assert [event["type"] for event in events][:4] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
        ]
        assert deltas(events) == text_of(events[-1]["response"])

    at_site(body, settings)


def test_progress_is_told_to_who_asks(settings: LocalSettings) -> None:
    """`x.return_progress` brings our events, without numbers; else there are only OpenAI's."""

    async def body(site: Site) -> None:
        for wanted in (True, False):
            asked = {**SHORT, "stream": True, "x": {"return_progress": wanted}}
            events = await stream(site, "POST", "/v1/responses", asked)
            ours = {event["type"] for event in events if "sequence_number" not in event}
            expected = {"response.prefill.progress", "response.cache"} if wanted else set()
            assert ours == expected

    at_site(body, settings)


def test_an_answer_goes_on_after_a_restart(settings: LocalSettings) -> None:
    """What the server's end cut short is continued where it was: the text is the uninterrupted."""
    asked = {**LONG, "max_output_tokens": 200}

    async def cut_short(site: Site) -> dict[str, Any]:
        seen = await first_delta(site, asked)
        await site.host.drain(0)
        stored = await site.call("GET", f"/v1/responses/{seen['response_id']}")
        assert stored["incomplete_details"] == {"reason": "server_shutdown"}
        assert stored["usage"]["output_tokens"] < 200
        return seen

    async def go_on(site: Site) -> None:
        place = f"stream=true&starting_after={seen['sequence_number']}"
        path = f"/v1/responses/{seen['response_id']}?{place}"
        before = await stream(site, "GET", path)
        assert before[-1]["response"]["status"] == "incomplete"
        events = await stream(site, "GET", f"{path}&continue=true")
        whole = await site.call("POST", "/v1/responses", asked)
        assert text_of(events[-1]["response"]) == text_of(whole)
        assert events[-1]["response"]["id"] == seen["response_id"]
        numbers = [event["sequence_number"] for event in events]
        assert numbers == sorted(set(numbers))
        assert numbers[0] > seen["sequence_number"]

    with slowed(0.02):
        seen = at_site(cut_short, settings)
    at_site(go_on, settings)


def test_a_turn_goes_on_from_a_response(settings: LocalSettings) -> None:
    """previous_response_id finds the whole history in the cache."""

    async def body(site: Site) -> None:
        first = await site.call("POST", "/v1/responses", SHORT)
        again = {**SHORT, "previous_response_id": first["id"]}
        second = await site.call("POST", "/v1/responses", again)
        usage = second["usage"]
        total = first["usage"]["total_tokens"]
        assert total - 1 <= usage["input_tokens_details"]["cached_tokens"] < usage["input_tokens"]
        items = await site.call("GET", f"/v1/responses/{second['id']}/input_items?order=asc")
        texts = [item["content"][0]["text"] for item in items["data"]]
        assert texts[-3:] == ["Hello there", text_of(first), "Hello there"]
        page = await site.call("GET", f"/v1/responses/{second['id']}/input_items?limit=1")
        assert page["has_more"]
        assert page["data"] == items["data"][-1:]

    at_site(body, settings)


def test_a_reader_who_left_reads_on(settings: LocalSettings) -> None:
    """Hanging up in the middle does not cancel; the rest comes from the place that was reached."""

    async def body(site: Site) -> None:
        seen = await first_delta(site, {**LONG, "max_output_tokens": 100})
        place, response = seen["sequence_number"], seen["response_id"]
        rest = await stream(
            site, "GET", f"/v1/responses/{response}?stream=true&starting_after={place}"
        )
        assert rest[0]["sequence_number"] > place
        whole = rest[-1]["response"]
        assert whole["usage"]["output_tokens"] == 100
        offset = seen["x"]["offset"] + len(seen["delta"])
        assert rest[0]["x"]["offset"] == offset
        assert deltas(rest) == text_of(whole)[offset:]
        assert [event["type"] for event in rest].count(rest[-1]["type"]) == 1

    at_site(body, settings)


def test_before_the_first_token_too(settings: LocalSettings) -> None:
    """A reader who only has event 0 gets event 1 and all the rest."""

    async def body(site: Site) -> None:
        made = await site.call("POST", "/v1/responses", SHORT)
        path = f"/v1/responses/{made['id']}?stream=true&starting_after=0"
        events = await stream(site, "GET", path)
        assert events[0]["sequence_number"] == 1
        assert deltas(events) == text_of(made)
        after_all = events[-1]["sequence_number"]
        assert await stream(site, "GET", f"{path[:-1]}{after_all}") == []

    at_site(body, settings)


@pytest.mark.usefixtures("unhurried")
def test_cancel(settings: LocalSettings) -> None:
    """It ends as cancelled, with what there was; a second time changes nothing."""

    async def body(site: Site) -> None:
        response = (await first_delta(site, LONG))["response_id"]
        cancelled = await site.call("POST", f"/v1/responses/{response}/cancel")
        assert cancelled["status"] == "cancelled"
        assert cancelled["incomplete_details"] == {"reason": "interrupted"}
        assert 0 < cancelled["usage"]["output_tokens"] < 300
        assert await site.call("POST", f"/v1/responses/{response}/cancel") == cancelled

    at_site(body, settings)


@pytest.mark.usefixtures("unhurried")
def test_nobody_comes_back(settings: LocalSettings) -> None:
    """A response that nobody reads is cancelled after its grace, and stored."""

    async def body(site: Site) -> None:
        body = {**LONG, "x": {**LONG["x"], "detach_s": 0.05}}  # type: ignore[dict-item]
        response = (await first_delta(site, body))["response_id"]
        assert (await ended(site, response))["status"] == "cancelled"

    at_site(body, settings)


@pytest.mark.parametrize("is_stream", [False, True])
def test_what_is_not_to_be_stored_goes(settings: LocalSettings, is_stream: bool) -> None:
    """After its answer there is nothing of it, in the store neither."""

    async def body(site: Site) -> None:
        asked = {**SHORT, "store": False, "stream": is_stream}
        if is_stream:
            events = await stream(site, "POST", "/v1/responses", asked)
            response = events[0]["response"]
        else:
            response = await site.call("POST", "/v1/responses", asked)
        path = f"/v1/responses/{response['id']}"
        assert await site.refused("GET", path) == (404, "response_not_found", "response_id")

    at_site(body, settings)


@pytest.mark.usefixtures("unhurried")
def test_a_client_that_left_ends_what_is_not_stored(settings: LocalSettings) -> None:
    """Its response is not computed to the end, and not kept."""

    async def body(site: Site) -> None:
        await first_delta(site, {**LONG, "store": False})
        await site.idle()
        assert site.host.engine.snapshot.counters.cancelled == 1

    at_site(body, settings)


def test_a_request_without_a_stream_that_left_is_read_later(settings: LocalSettings) -> None:
    """The answer that nobody waited for is there under its id."""

    async def body(site: Site) -> None:
        asking = asyncio.create_task(site.call("POST", "/v1/responses", LONG))
        response = await site.begun()
        asking.cancel()
        assert (await ended(site, response))["usage"]["output_tokens"] == 300

    at_site(body, settings)


def test_the_same_key_is_the_same_response(settings: LocalSettings) -> None:
    """A request that is sent again is answered once; with other content it is refused."""

    async def body(site: Site) -> None:
        async def ask(text: str, key: str) -> Any:
            asked = {**SHORT, "input": text}
            headers = {"Idempotency-Key": key}
            return await site.http.post("/v1/responses", json=asked, headers=headers)

        first, again = await ask("a", "k"), await ask("a", "k")
        assert again.json() == first.json()
        assert (await ask("a", "other")).json()["id"] != first.json()["id"]
        conflict = await ask("b", "k")
        assert conflict.status_code == 409
        assert conflict.json()["error"]["code"] == "idempotency_conflict"
        assert (await ask("a", "k" * 300)).status_code == 400

    at_site(body, settings)


def test_delete(settings: LocalSettings) -> None:
    """The response is gone; its conversation still has the messages."""

    async def body(site: Site) -> None:
        conversation = await site.call("POST", "/v1/conversations", {})
        asked = {**SHORT, "conversation": conversation["id"]}
        made = await site.call("POST", "/v1/responses", asked)
        path = f"/v1/responses/{made['id']}"
        assert await site.call("DELETE", path) == {
            "id": made["id"],
            "object": "response",
            "deleted": True,
        }
        assert await site.refused("GET", path) == (404, "response_not_found", "response_id")
        items = await site.call("GET", f"/v1/conversations/{conversation['id']}/items")
        assert [item["role"] for item in items["data"]][:2] == ["assistant", "user"]

    at_site(body, settings)


def test_nobody_finds_anothers(settings: LocalSettings) -> None:
    """Another key's response is not there: it can neither be read nor cancelled nor erased."""

    async def body(site: Site) -> None:
        mine, others = ({"Authorization": f"Bearer key-{name}"} for name in "ab")
        made = (await site.http.post("/v1/responses", json=SHORT, headers=mine)).json()
        path = f"/v1/responses/{made['id']}"
        for method, of in (
            ("GET", ""),
            ("POST", "/cancel"),
            ("GET", "/input_items"),
            ("DELETE", ""),
        ):
            answer = await site.http.request(method, path + of, headers=others)
            assert answer.status_code == 404
        assert (await site.http.get(path, headers=mine)).json() == made

    at_site(body, settings)


REFUSED: tuple[tuple[Any, int, str, str | None], ...] = (
    ({}, 400, "missing_required_parameter", "input"),
    ({**SHORT, "model": "another"}, 404, "model_not_found", "model"),
    ({**SHORT, "temperature": -1}, 400, "invalid_value", "temperature"),
    ({**SHORT, "tools": [{"type": "web_search"}]}, 400, "unsupported_parameter", "tools"),
    ({**SHORT, "x": {"n": 2}}, 400, "unsupported_parameter", "x.n"),
    (
        {**SHORT, "previous_response_id": "resp_0"},
        404,
        "previous_response_not_found",
        "previous_response_id",
    ),
    ({**SHORT, "input": "word " * 2000}, 400, "context_length_exceeded", None),
)
WRONG_QUERIES = ("starting_after=x", "starting_after=-2", "stream=perhaps")


def test_refusals(settings: LocalSettings) -> None:
    """Before anything is stored or computed, with the field's name; each is counted."""

    async def body(site: Site) -> None:
        for asked, status, code, param in REFUSED:
            seen = await site.refused("POST", "/v1/responses", asked)
            assert seen[:2] == (status, code)
            assert param is None or seen[2] == param
        for query in WRONG_QUERIES:
            seen = await site.refused("GET", f"/v1/responses/resp_0?{query}")
            assert seen == (400, "invalid_value", query.split("=")[0])
        assert site.edge.metrics.refusals.total() == len(REFUSED) + len(WRONG_QUERIES)
        assert site.host.engine.snapshot.counters.requests == 0

    at_site(body, settings)
