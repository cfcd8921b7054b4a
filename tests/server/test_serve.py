"""`radixchat serve` as a process: its start, its end, and what it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect as async_connect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from radixchat.server.app import app_of
from radixchat.server.asks import InputMessage, NewTurn
from radixchat.server.edge import Edge
from radixchat.server.keys import authenticator
from radixchat.server.limits import Limits
from radixchat.server.listener import Listener, bind, url_of
from radixchat.server.local import LocalSettings, open_host
from radixchat.server.response import LiveResponse
from radixchat.server.response_options import ResponseOptions
from radixchat.server.serve import FAILED, restore_shares, serve_until_told
from radixchat.server.serve_settings import ServeSettings
from radixchat.server.signals import Signals
from radixchat.server.store import Store
from radixchat.tests.server.server_process import (
    COMMAND,
    PATIENCE_S,
    ServerProcess,
    command,
    environment,
    free_port,
    serving,
)
from radixchat.tests.server.sites import break_down
from radixchat.tests.slow_steps import slow_command
from radixchat.tests.tiny_model import endless_model_directory

CONTEXT = 8192
# A step for each token: seconds of work where steps are slowed, and more than any test waits for.
LONG: dict[str, object] = {
    "input": "Hello",
    "max_output_tokens": 1500,
    "temperature": 0,
    "stream": True,
    "x": {"speculate": False},
}
ENDLESS = LONG | {"max_output_tokens": 8000}
SECONDS, MINUTES = slow_command(0.004), slow_command(0.02)


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose answers end when they are as long as was asked."""
    return endless_model_directory(tmp_path_factory.mktemp("endless"), CONTEXT)


class Reader:
    """Reads a streamed answer on a thread of its own."""

    def __init__(self, server: ServerProcess, body: dict[str, object]) -> None:
        self.events: list[dict[str, object]] = []
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(server.url, body))
        self._thread.start()
        assert self._begun.wait(PATIENCE_S), "no answer has begun"
        assert self.events, "the answer is none"

    @property
    def response(self) -> str:
        """The response's id."""
        created = self.events[0]["response"]
        assert isinstance(created, dict)
        return str(created["id"])

    def end(self) -> dict[str, object]:
        """The last event, once the stream has ended."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.events[-1]

    def _read(self, url: str, body: dict[str, object]) -> None:
        with (
            contextlib.suppress(httpx.RemoteProtocolError, httpx.ReadError),  # it was cut
            httpx.Client(base_url=url, timeout=PATIENCE_S) as client,
            client.stream("POST", "/v1/responses", json=body) as answer,
        ):
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    self.events.append(json.loads(line.removeprefix("data: ")))
                    if self.events[-1]["type"] == "response.output_text.delta":
                        self._begun.set()
            self._begun.set()


def status(server: ServerProcess, path: str) -> int:
    return httpx.get(server.url + path, timeout=PATIENCE_S).status_code


def last_words(server: ServerProcess) -> Iterator[dict[str, object]]:
    """What a WebSocket that says hello is told, until it is closed with 1012."""
    url = server.url.replace("http", "ws", 1) + "/v1/responses"
    with connect(
        url, subprotocols=[Subprotocol("radixchat.v1")], compression=None, proxy=None
    ) as client:
        with contextlib.suppress(ConnectionClosed):
            while True:
                yield json.loads(client.recv(timeout=PATIENCE_S))
        assert client.close_code == 1012


def test_from_start_to_end(endless: Path, tmp_path: Path) -> None:
    """One line on standard output, files for their owner only, and 0 when it is told to leave."""
    with serving(endless, tmp_path) as server:
        assert server.url.startswith("http://127.0.0.1:")
        for said in ("context", "pages of 16 tokens", f"{server.url}/v1", "none needed"):
            server.wait_for(said)
        assert status(server, "/readyz") == 200
        page = httpx.get(server.url + "/", timeout=PATIENCE_S)
        assert "text/html" in page.headers["content-type"]
        asked = {"input": "Hello", "max_output_tokens": 3, "temperature": 0}
        answer = httpx.post(server.url + "/v1/responses", json=asked, timeout=PATIENCE_S).json()
        assert answer["usage"]["output_tokens"] == 3
        server.tell()
        assert server.code() == 0
        assert server.process.stdout is not None
        assert server.process.stdout.read() == ""
        assert "Traceback" not in server.stderr
    folder = tmp_path / "data"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert files == {"sessions.db": 0o600}, "the log was written back, and nothing else is left"


@pytest.mark.slow
def test_running_answers_finish(endless: Path, tmp_path: Path) -> None:
    """Told to leave: not ready with the listener open, sockets are told, what runs ends as ever."""
    with serving(endless, tmp_path, "--drain-timeout", "120", command=SECONDS) as server:
        words = last_words(server)
        assert next(words)["type"] == "server.hello"
        reader = Reader(server, LONG)
        server.tell()
        server.wait_for("draining")
        assert status(server, "/readyz") == 503
        assert status(server, "/healthz") == 200
        refused = httpx.post(server.url + "/v1/responses", json=LONG, timeout=PATIENCE_S)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "server_overloaded")
        draining = next(words)
        assert draining["type"] == "server.draining"
        assert list(words) == []
        last = reader.end()
        assert last["type"] == "response.incomplete"
        assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}  # type: ignore[index]
        assert server.code() == 0
        assert "Traceback" not in server.stderr


@pytest.mark.slow
def test_answers_that_take_too_long_are_stored(endless: Path, tmp_path: Path) -> None:
    """After --drain-timeout what is there is kept, its reader is told, and the code is 0."""
    with serving(endless, tmp_path, "--drain-timeout", "0.2", command=MINUTES) as server:
        reader = Reader(server, ENDLESS)
        server.tell(signal.SIGINT)
        last = reader.end()
        assert last["type"] == "response.incomplete"
        assert last["response"]["incomplete_details"] == {"reason": "server_shutdown"}  # type: ignore[index]
        assert server.code() == 0
    with Store(tmp_path / "data" / "sessions.db") as store:
        stored = store.response(reader.response, principal="local")
        assert (stored.status, stored.reason) == ("incomplete", "server_shutdown")
        assert store.verify() == []


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(endless: Path, tmp_path: Path) -> None:
    """Whoever insists need not wait; the answer is found by the next process."""
    with serving(endless, tmp_path, "--drain-timeout", "150", command=MINUTES) as server:
        reader = Reader(server, ENDLESS)
        server.tell()
        server.wait_for("draining")
        server.tell()
        assert server.code() == 128 + signal.SIGTERM, "it would have waited longer than we do"
        assert reader.end()["type"] == "response.output_text.delta"
    with Store(tmp_path / "data" / "sessions.db") as store:
        stored = store.response(reader.response, principal="local")
        assert (stored.status, stored.reason) == ("incomplete", "server_shutdown")


@pytest.mark.slow
def test_an_operator_can_tell_it_to_leave(endless: Path, tmp_path: Path) -> None:
    """POST /admin/drain is a SIGTERM that comes over HTTP."""
    with serving(endless, tmp_path) as server:
        with server.client() as client:
            assert client.post("/admin/drain").status_code == 202
        assert server.code() == 0


@pytest.mark.slow
def test_the_log_has_no_key_and_no_text(endless: Path, tmp_path: Path) -> None:
    """As JSON every line is an object; what clients sent is in none of them."""
    key = command("keys", "add", "anna", folder=tmp_path)[1].strip()
    assert key.startswith("rc_")
    with serving(endless, tmp_path, "--log-format", "json") as server:
        for who in (key, "rc_wrong"):
            headers = {"Authorization": f"Bearer {who}"}
            asked = {"input": "a secret text", "max_output_tokens": 2}
            with server.client(**headers) as client:
                client.post("/v1/responses", json=asked)
                client.get("/v1/conversations?after=secret")
        server.tell()
        assert server.code() == 0
    lines = [json.loads(line) for line in server.stderr.splitlines()]
    events = [line["event"] for line in lines]
    assert events.count("request") == 4
    assert {"serving", "draining"} <= set(events)
    assert {line["principal"] for line in lines if line["event"] == "request"} > {None}
    for secret in (key, "rc_wrong", "secret"):
        assert secret not in server.stderr


def test_an_engine_that_fails_ends_the_server(settings: LocalSettings) -> None:
    """It does not limp: whoever is connected is told, and the exit code says so."""

    async def main() -> int:
        edge, sockets = Edge(ServeSettings(port=0)), bind(ServeSettings(port=0))
        listener = Listener(app_of(edge), edge.settings, sockets)
        await listener.start()
        async with open_host(replace(settings, threads=1)) as host:
            edge.open(host, authenticator(host, edge.settings))
            serving = asyncio.create_task(serve_until_told(edge, host, listener, Signals()))
            url = url_of(edge.settings, sockets).replace("http", "ws", 1) + "/v1/responses"
            async with async_connect(url, compression=None, proxy=None) as client:
                await host.engine.ask(break_down)
                asked = {"type": "response.create", "input": "Hello", "max_output_tokens": 5}
                await client.send(json.dumps(asked))
                events = []
                with contextlib.suppress(ConnectionClosed):
                    while True:
                        events.append(json.loads(await client.recv()))
                assert events[-1]["type"] == "response.failed"
                assert client.close_code == 1011
            code = await serving
            await listener.stop()
            return code

    assert asyncio.run(main()) == FAILED


def test_a_restart_remembers_the_day_s_tokens(settings: LocalSettings, tmp_path: Path) -> None:
    """Those of stored answers, whoever made them; without a limit nothing is looked up."""
    limited = ServeSettings(port=0, limits=Limits(tokens_per_day=100))
    local = replace(settings, threads=1, database=tmp_path / "s.db")

    async def main() -> None:
        async with open_host(local) as host:
            for principal in ("a", "a", "b"):
                ask = NewTurn((InputMessage("user", "Hi"),))
                options = ResponseOptions(max_output_tokens=3, ignore_eos=True)
                begun = await host.service(principal).begin(ask, options)
                assert isinstance(begun, LiveResponse)
                await begun.task
        async with open_host(local) as host:
            edge, unlimited = Edge(limited), Edge(ServeSettings(port=0))
            for each in (edge, unlimited):
                await restore_shares(each, host)
            assert [edge.rates.tokens_today(who) for who in "abc"] == [6, 3, 0]
            assert unlimited.rates.tokens_today("a") == 0

    asyncio.run(main())


@pytest.mark.slow
def test_told_to_leave_while_it_loads(endless: Path, tmp_path: Path) -> None:
    """Nothing was promised to anybody yet: it ends at once, and says nothing."""
    port = free_port()
    process = subprocess.Popen(
        [*COMMAND, "serve", "-m", str(endless), "--port", str(port)],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=PATIENCE_S)
    # Or it had begun to serve at this very moment, and left as it should.
    assert process.returncode in (128 + signal.SIGTERM, 0)
    assert out == "" or process.returncode == 0
    assert "Traceback" not in error
