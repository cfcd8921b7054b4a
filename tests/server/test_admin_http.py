"""Tests of server/admin_http.py and server/exposition.py: a real server, a tiny model."""

from __future__ import annotations

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from radixchat.engine.engine import Engine
from radixchat.server.exposition import EngineFigures, Exposition, read_figures
from radixchat.server.local import LocalSettings
from radixchat.tests.server.sites import Site, at_site

ASKED = {"input": "Hello there", "max_output_tokens": 6, "temperature": 0}
A, B = ({"Authorization": f"Bearer key-{name}"} for name in "ab")
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(site: Site) -> Samples:
    """Every sample of /metrics by its name and labels; none is there twice."""
    answer = await site.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation, family.name
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in samples
            samples[key] = sample.value
    return samples


def test_metrics_count_tokens(settings: LocalSettings) -> None:
    """Hits and queries are tokens, as the usage says; what is cached, free and held is the pool."""

    async def body(site: Site) -> None:
        usages = [(await site.call("POST", "/v1/responses", ASKED))["usage"] for _ in range(2)]
        await asyncio.sleep(0)  # the observers hear of the end after the client
        seen = await scrape(site)
        cached = sum(usage["input_tokens_details"]["cached_tokens"] for usage in usages)
        assert seen["radixchat_prefix_cache_hits_total", ()] == cached > 0
        queries = sum(usage["input_tokens"] for usage in usages)
        assert seen["radixchat_prefix_cache_queries_total", ()] == queries
        assert seen["radixchat_generation_tokens_total", ()] == 12
        pool = sum(
            seen["radixchat_kv_tokens", (("state", state),)]
            for state in ("free", "evictable", "pinned")
        )
        assert pool == site.host.plan.num_pages * site.host.plan.page_size
        assert seen["radixchat_kv_cached_tokens", ()] > 0
        assert seen["radixchat_engine_up", ()] == 1
        ends = ("reason", "max_output_tokens"), ("status", "incomplete")
        assert seen["radixchat_responses_total", ends] == 2
        first = "radixchat_time_to_first_token_seconds_count"
        assert seen[first, (("cache", "miss"),)] == 1
        assert seen[first, (("cache", "hit"),)] == 1
        assert seen["radixchat_inter_token_latency_seconds_count", ()] > 0
        assert seen["radixchat_request_queue_time_seconds_count", ()] == 2
        assert seen["radixchat_prefill_computed_tokens_sum", ()] == queries - cached
        route = ("method", "POST"), ("route", "/v1/responses"), ("status", "200")
        assert seen["radixchat_http_requests_total", route] == 2

    at_site(body, settings)


def test_metrics_name_nobody(settings: LocalSettings) -> None:
    """No id of a response, a conversation or a principal, and no word of theirs, is in them."""

    async def body(site: Site) -> None:
        made = (await site.http.post("/v1/responses", json=ASKED, headers=A)).json()
        await site.http.get(f"/v1/responses/{made['id']}", headers=A)
        await site.http.get("/v1/conversations/search?query=zebra", headers=A)
        await site.http.get("/zebra")
        text = (await site.http.get("/metrics")).text
        for secret in (made["id"], made["x"]["conversation"], "key-a", "zebra", "Hello"):
            assert secret not in text

    at_site(body, settings)


def test_metrics_are_for_an_operator(settings: LocalSettings) -> None:
    """A key that is none of an operator's may not read them, nor end the server."""

    async def body(site: Site) -> None:
        for method, path in (("GET", "/metrics"), ("POST", "/admin/drain")):
            assert (await site.http.request(method, path, headers=A)).status_code == 403
        assert not site.edge.departure.requested.is_set()

    at_site(body, settings)


def test_a_dead_engine_still_has_metrics(settings: LocalSettings) -> None:
    """The last known figures are shown, and that it is dead."""

    async def body(site: Site) -> None:
        await site.call("POST", "/v1/responses", ASKED)
        before = await scrape(site)
        await site.host.engine.stop()
        seen = await scrape(site)
        assert seen["radixchat_engine_up", ()] == 0
        for name in ("requests_total", "kv_cached_tokens", "prefix_cache_queries_total"):
            assert seen[f"radixchat_{name}", ()] == before[f"radixchat_{name}", ()] > 0

    at_site(body, settings)


def test_figures_are_of_one_moment(settings: LocalSettings) -> None:
    """They are read between two steps, on the engine's thread."""

    async def body(site: Site) -> None:
        await site.call("POST", "/v1/responses", ASKED)

        def read(engine: Engine) -> tuple[EngineFigures, int]:
            return read_figures(engine), engine.cache.num_cached_tokens

        figures, cached = await site.host.engine.ask(read)
        assert figures.cached == cached > 0
        text = await Exposition(site.host, site.edge.metrics, "1.2.3").text()
        assert b'version="1.2.3"' in text
        assert f"radixchat_kv_cached_tokens {cached}.0".encode() in text

    at_site(body, settings)


def test_the_cache_shows_the_callers_own(settings: LocalSettings) -> None:
    """The tree has the tokens of the principal that asks, and of nobody else."""

    async def body(site: Site) -> None:
        answer = await site.http.post("/v1/responses", json=ASKED, headers=A)
        conversation = answer.json()["x"]["conversation"]
        path = f"/admin/cache?conversation={conversation}"
        mine = (await site.http.get(path, headers=A)).json()
        tokens = sum(node["tokens"] for node in mine["tree"]["nodes"])
        assert tokens == answer.json()["usage"]["total_tokens"] - 1
        assert all(node["on_path"] for node in mine["tree"]["nodes"])
        assert list(mine["stats"]) == ["engine"], "counters are of everybody: an operator's"
        others = (await site.http.get("/admin/cache", headers=B)).json()
        assert others["tree"]["nodes"] == []
        assert (await site.http.get(path, headers=B)).status_code == 404

    at_site(body, settings)


def test_a_flush_is_of_the_callers_own(settings: LocalSettings) -> None:
    """What others have stays warm; all of it goes only for an operator."""

    async def body(site: Site) -> None:
        async def cached(headers: dict[str, str]) -> int:
            answer = await site.http.post("/v1/responses", json=ASKED, headers=headers)
            tokens: int = answer.json()["usage"]["input_tokens_details"]["cached_tokens"]
            return tokens

        assert [await cached(A), await cached(B)] == [0, 0]
        flushed = await site.http.post("/admin/cache/flush", headers=A)
        assert flushed.json()["tokens"] > 0
        assert await cached(A) == 0
        assert await cached(B) > 0
        for headers, status in ((A, 403), ({}, 200)):
            answer = await site.http.post("/admin/cache/flush?scope=all", headers=headers)
            assert answer.status_code == status
        assert [await cached(A), await cached(B)] == [0, 0]

    at_site(body, settings)


def test_drain_is_asked_for(settings: LocalSettings) -> None:
    """Whoever runs the server is told; asking again does no harm."""

    async def body(site: Site) -> None:
        for _ in range(2):
            answer = await site.http.post("/admin/drain")
            assert answer.status_code == 202
            assert answer.json() == {"draining": True, "running": 0}
        assert site.edge.departure.requested.is_set()

    at_site(body, settings)
