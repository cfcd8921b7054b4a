"""What stands before every route: a real server in this process, its own keys, a tiny model."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from radixchat.server.app import app_of, create_app
from radixchat.server.edge import Edge
from radixchat.server.keys import authenticator
from radixchat.server.limits import Limits
from radixchat.server.listener import Listener, bind, url_of
from radixchat.server.local import LocalSettings, open_host
from radixchat.server.serve_settings import ServeSettings
from radixchat.tests.server.sites import Site, break_down

ASKED = {"input": "Hello", "max_output_tokens": 4, "temperature": 0}
FREE = ServeSettings(port=0)
SECRET = "a secret of the test's"


async def buggy(request: Request) -> Response:
    """Has a bug, with somebody's text in it."""
    raise ValueError(SECRET)


@asynccontextmanager
async def opened(
    local: LocalSettings, settings: ServeSettings = FREE, *keys: str
) -> AsyncIterator[tuple[Site, list[dict[str, str]]]]:
    """A server, and the headers of its clients; a key's name with a `!` is an operator's."""
    async with open_host(replace(local, threads=1)) as host:
        made = [
            await host.database(
                host.store.keys.add, name.rstrip("!"), is_operator=name.endswith("!")
            )
            for name in keys
        ]
        app, sockets = create_app(host, settings), bind(settings)
        app.router.routes.append(Route("/v1/bug", buggy))
        listener = Listener(app, settings, sockets)
        await listener.start()
        url = url_of(settings, sockets)
        try:
            async with httpx.AsyncClient(base_url=url, timeout=30) as client:
                site = Site(host, app.state.edge, url, client)
                yield site, [{"Authorization": f"Bearer {key}"} for key in made]
        finally:
            await listener.stop()


def run(
    body: Callable[[Site, list[dict[str, str]]], Awaitable[None]],
    local: LocalSettings,
    settings: ServeSettings = FREE,
    *keys: str,
) -> None:
    """Run `body` with that server."""

    async def main() -> None:
        async with opened(local, settings, *keys) as (site, headers):
            await asyncio.wait_for(body(site, headers), 300)

    asyncio.run(main())


async def error_of(answer: Awaitable[httpx.Response]) -> tuple[int, str]:
    """Status and code of a refusal; it has OpenAI's shape."""
    response = await answer
    error = response.json()["error"]
    assert set(error) >= {"type", "code", "message", "param"}
    return response.status_code, error["code"]


async def handshake(site: Site, path: str = "/v1/responses", **more: Any) -> int:
    """The status of a WebSocket's handshake."""
    url = site.url.replace("http", "ws", 1) + path
    try:
        async with connect(url, compression=None, proxy=None, **more):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


def test_what_needs_a_key(settings: LocalSettings) -> None:
    """With a key in the store everything needs one, but for probes, the version and the page."""

    async def body(site: Site, headers: list[dict[str, str]]) -> None:
        for path in ("/healthz", "/readyz", "/version", "/", "/web/app.js"):
            assert (await site.http.get(path)).status_code == 200, path
        probed = await site.http.post("/healthz", headers={"Host": "["})
        assert probed.status_code == 405
        for path in ("/v1/models", "/v1/conversations", "/metrics", "/nowhere", "/admin/cache"):
            answer = await site.http.get(path)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["error"]["code"] == "invalid_api_key"
        wrong = {"Authorization": "Bearer rc_wrong"}
        assert (await site.http.get("/v1/models", headers=wrong)).status_code == 401
        (anna,) = headers
        assert (await site.http.get("/v1/models", headers=anna)).status_code == 200
        assert await handshake(site) == 401
        assert await handshake(site, additional_headers=anna) == 101

    run(body, settings, FREE, "anna")


def test_a_key_made_or_revoked_counts_at_once(settings: LocalSettings) -> None:
    """No restart: the first key closes the server, a revoked one opens nothing."""

    async def body(site: Site, _: list[dict[str, str]]) -> None:
        assert (await site.http.get("/v1/models")).status_code == 200
        keys = site.host.store.keys
        key = await site.host.database(keys.add, "anna")
        anna = {"Authorization": f"Bearer {key}"}
        assert (await site.http.get("/v1/models")).status_code == 401
        assert (await site.http.get("/v1/models", headers=anna)).status_code == 200
        await site.host.database(keys.revoke, "anna")
        for headers in ({}, anna):
            assert (await site.http.get("/v1/models", headers=headers)).status_code == 401
        assert await authenticator(site.host, FREE).needs_key()  # as after a restart

    run(body, settings)


def test_each_key_sees_its_own(settings: LocalSettings) -> None:
    """Another's response is not found, and its cached tokens are nobody else's."""

    async def body(site: Site, headers: list[dict[str, str]]) -> None:
        anna, ben = headers
        first = await site.call("POST", "/v1/responses", ASKED, headers=anna)
        path = f"/v1/responses/{first['id']}"
        assert (await site.http.get(path, headers=anna)).status_code == 200
        assert await error_of(site.http.get(path, headers=ben)) == (404, "response_not_found")
        cached = []
        for who in (ben, anna):
            answer = await site.call("POST", "/v1/responses", ASKED, headers=who)
            cached.append(answer["usage"]["input_tokens_details"]["cached_tokens"])
        assert cached[0] == 0
        assert cached[1] > 0

    run(body, settings, FREE, "anna", "ben")


def test_what_is_for_operators(settings: LocalSettings) -> None:
    """Figures of all clients, and the drain, are an operator's; without keys, anybody's."""

    async def body(site: Site, headers: list[dict[str, str]]) -> None:
        anna, ops = headers
        refused = (403, "operator_required")
        assert await error_of(site.http.get("/metrics", headers=anna)) == refused
        assert await error_of(site.http.post("/admin/drain", headers=anna)) == refused
        for path in ("/metrics%0A", "/admin/drain%0A", "/v1/responses%0A"):
            for method in ("GET", "POST"):  # a route's pattern would match before the newline
                hidden = site.http.request(method, path, headers=anna)
                assert await error_of(hidden) == (404, "not_found"), path
        assert (await site.http.get("/metrics", headers=ops)).status_code == 200
        assert (await site.http.post("/admin/drain", headers=ops)).status_code == 202
        assert site.edge.departure.requested.is_set()

    async def alone(site: Site, _: list[dict[str, str]]) -> None:
        assert (await site.http.get("/metrics")).status_code == 200

    run(body, settings, FREE, "anna", "ops!")
    run(alone, replace(settings, database=None))


def test_a_handshake_is_refused_before_the_upgrade(settings: LocalSettings) -> None:
    """Path, Host, Origin, key, share, in this order, each with HTTP's own status."""
    limited = replace(FREE, limits=Limits(max_connections=1))

    async def body(site: Site, headers: list[dict[str, str]]) -> None:
        (anna,) = headers
        evil = {"Host": "evil.example", "Origin": "https://evil.example"}
        assert await handshake(site, "/v1/other", additional_headers=evil) == 404
        rebound = await site.http.get("/v1/models", headers=evil)
        assert rebound.status_code == 421
        assert await handshake(site, origin="https://evil.example") == 403
        own = site.url
        assert await handshake(site, origin=own) == 401
        assert await handshake(site, origin=own, additional_headers=anna) == 101
        url = site.url.replace("http", "ws", 1) + "/v1/responses"
        async with connect(url, additional_headers=anna, compression=None, proxy=None):
            assert site.edge.rates.num_sockets == 1
            assert await handshake(site, additional_headers=anna) == 429
        while site.edge.rates.num_sockets:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
        assert await handshake(site, additional_headers=anna) == 101
        site.edge.departure.drain(1)
        assert await handshake(site, additional_headers=anna) == 503

    run(body, settings, limited, "anna")


def test_a_key_in_a_subprotocol_is_not_sent_back(settings: LocalSettings) -> None:
    """A browser's way: the server picks the public one of the two."""

    async def body(site: Site, headers: list[dict[str, str]]) -> None:
        key = headers[0]["Authorization"].removeprefix("Bearer ")
        bearer = "radixchat.bearer." + base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")
        url = site.url.replace("http", "ws", 1) + "/v1/responses"
        async with connect(
            url,
            subprotocols=[Subprotocol(name) for name in ("radixchat.v1", bearer)],
            compression=None,
            proxy=None,
        ) as socket:
            assert socket.subprotocol == "radixchat.v1"
            assert socket.response is not None
            assert key not in str(socket.response.headers)
            assert bearer not in str(socket.response.headers)

    run(body, settings, FREE, "anna")


def test_bodies_are_bounded(settings: LocalSettings) -> None:
    """Too many bytes are refused, their number told or not, and late ones are not waited for."""
    bounded = replace(FREE, limits=Limits(max_message_bytes=1000))
    impatient = replace(FREE, limits=Limits(body_seconds=0.2))
    path = "/v1/conversations"

    async def pieces(number: int, seconds: float = 0) -> AsyncIterator[bytes]:
        for _ in range(number):
            yield b" " * 100
            await asyncio.sleep(seconds)

    async def body(site: Site, _: list[dict[str, str]]) -> None:
        too_big = (413, "message_too_big")
        for size in (1001, 300_000):
            assert await error_of(site.http.post(path, content=b" " * size)) == too_big
        assert await error_of(site.http.post(path, content=pieces(11))) == too_big
        fits = await site.http.post(path, content=b"{}" + b" " * 998)
        assert fits.status_code == 200, fits.text

    async def slow_body(site: Site, _: list[dict[str, str]]) -> None:
        late = (408, "request_timeout")
        assert await error_of(site.http.post(path, content=pieces(9, 0.1))) == late

    run(body, settings, bounded)
    run(slow_body, settings, impatient)


def test_shares_over_http(settings: LocalSettings) -> None:
    """What begins an answer is counted, with the numbers and when to try again; nothing else is."""
    limited = replace(FREE, limits=Limits(requests_per_minute=1))

    async def body(site: Site, _: list[dict[str, str]]) -> None:
        response = await site.call("POST", "/v1/responses", ASKED)
        for _again in range(3):
            await site.call("GET", f"/v1/responses/{response['id']}")
            await site.call("POST", "/v1/conversations", {})
        refused = await site.http.post("/v1/chat/completions", json={})
        assert refused.status_code == 429
        error = refused.json()["error"]
        assert (error["code"], error["limit"]) == ("rate_limit_exceeded", 1)
        assert 0 < error["retry_after_ms"] <= 60_000
        assert refused.headers["retry-after-ms"] == str(error["retry_after_ms"])
        assert 1 <= int(refused.headers["retry-after"]) <= 60

    run(body, settings, limited)


def test_tokens_are_counted_for_whoever_asked(settings: LocalSettings) -> None:
    """Stored and stateless answers use up the same day's tokens."""
    limited = replace(FREE, limits=Limits(tokens_per_day=6))

    async def body(site: Site, headers: list[dict[str, str]]) -> None:
        anna, ben = headers
        chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
        model = {"model": site.host.model_name}
        await site.call("POST", "/v1/responses", ASKED | model, headers=anna)
        await site.call("POST", "/v1/chat/completions", chat | model, headers=anna)
        asked = site.http.post("/v1/responses", json=ASKED, headers=anna)
        assert await error_of(asked) == (429, "rate_limit_exceeded")
        await site.call("POST", "/v1/responses", ASKED, headers=ben)

    run(body, settings, limited, "anna", "ben")


def test_draining_answers_what_it_can(settings: LocalSettings) -> None:
    """Not ready, but alive: what is there can be read, nothing new begins."""

    async def body(site: Site, _: list[dict[str, str]]) -> None:
        response = await site.call("POST", "/v1/responses", ASKED)
        site.edge.departure.drain(5)
        ready, alive = await site.http.get("/readyz"), await site.http.get("/healthz")
        assert (ready.status_code, ready.json()) == (503, {"status": "draining"})
        assert (alive.status_code, alive.json()) == (200, {"status": "draining"})
        for path in ("/v1/responses", "/v1/chat/completions", "/v1/completions"):
            refused = await site.http.post(path, json=ASKED)
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "server_overloaded"
            assert "retry-after" in refused.headers
        await site.call("GET", f"/v1/responses/{response['id']}")
        await site.call("POST", f"/v1/responses/{response['id']}/cancel")

    run(body, settings)


def test_a_dead_engine_is_not_healthy(settings: LocalSettings) -> None:
    """Liveness is about the engine: once its thread has failed, the process is to be restarted."""

    async def body(site: Site, _: list[dict[str, str]]) -> None:
        assert (await site.http.get("/healthz")).status_code == 200
        await site.host.engine.ask(break_down)
        failed = await site.call("POST", "/v1/responses", ASKED)
        assert failed["status"] == "failed"
        told = failed["error"]
        assert (told["x_code"], "log says how" in told["message"]) == ("engine_failed", True)
        for path in ("/healthz", "/readyz"):
            answer = await site.http.get(path)
            assert (answer.status_code, answer.json()) == (503, {"status": "failed"})

    run(body, settings)


def test_while_the_model_is_loaded() -> None:
    """Alive and not ready; whoever comes early is told when to come again."""

    async def main() -> None:
        app = app_of(Edge(FREE))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/healthz")).json() == {"status": "loading"}
            assert (await client.get("/readyz")).status_code == 503
            early = await client.get("/v1/models")
            assert early.status_code == 503
            assert early.json()["error"]["code"] == "model_loading"
            assert early.json()["error"]["retry_after_ms"] > 0
            assert (await client.get("/")).status_code == 200

    asyncio.run(main())


def test_pages_of_allowed_origins_may_read_answers(settings: LocalSettings) -> None:
    """A browser asks first, without a key; errors can be read, too."""
    origin = "https://app.example"
    allowed = replace(FREE, allow_origins=(origin,))

    async def body(site: Site, _: list[dict[str, str]]) -> None:
        asked = {
            "Origin": origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        }
        preflight = await site.http.options("/v1/responses", headers=asked)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == origin
        refused = await site.http.get("/v1/models", headers={"Origin": origin})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == origin
        evil = await site.http.options(
            "/v1/responses", headers=asked | {"Origin": "https://evil.example"}
        )
        assert evil.status_code == 403

    run(body, settings, allowed, "anna")


def test_errors_are_json_and_tell_nothing(
    settings: LocalSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """No path, no method, no model, a bug: OpenAI's shape, and no text of anybody's."""

    async def body(site: Site, _: list[dict[str, str]]) -> None:
        assert await error_of(site.http.get("/v1/nothing")) == (404, "not_found")
        refused = await site.http.delete("/v1/models")
        assert (refused.status_code, set(refused.headers["allow"].split(", "))) == (
            405,
            {"GET", "HEAD"},
        )
        assert refused.json()["error"]["code"] == "method_not_allowed"
        assert await error_of(site.http.get("/v1/models/gpt")) == (404, "model_not_found")
        model = (await site.call("GET", "/v1/models"))["data"][0]["id"]
        assert (await site.call("GET", f"/v1/models/{model}"))["id"] == model
        bug = await site.http.get("/v1/bug")
        assert bug.status_code == 500
        assert SECRET not in bug.text
        assert bug.json()["error"]["code"] == "server_error"
        assert site.edge.metrics.refusals["server_error"] == 1

    with caplog.at_level(logging.ERROR):
        run(body, settings)
    assert any(record.exc_info for record in caplog.records), "a bug's traceback is logged"
