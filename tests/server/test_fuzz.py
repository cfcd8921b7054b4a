"""Any bytes over the socket and over HTTP: refused or served, never a failure of the server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from radixchat.server.auth import SUBPROTOCOL
from radixchat.server.local import LocalSettings
from radixchat.server.operations import OPERATIONS
from radixchat.tests.server.noise import Noise
from radixchat.tests.server.server_process import ServerProcess, serving
from radixchat.tests.server.sites import Site, at_site
from radixchat.tests.server.sockets import Server, serve_sockets
from radixchat.tests.server.test_documents import check_events
from radixchat.tests.tiny_model import tiny_model_directory

SECONDS = float(os.environ.get("RADIXCHAT_FUZZ_SECONDS", "20"))
# The suite sends the same requests each time; a longer run draws others.
SEED = os.environ.get("RADIXCHAT_FUZZ_SEED", "1")
# Violations of the protocol that the client is told by the close frame.
REFUSED = (1003, 1007, 1008, 1009)
FAILURES = ("server_error", "engine_failed", "store_error")
GROWTH_MIB = 150  # of a process that has answered once; the cache and its buffers included
BODIES = sorted(
    (method, path) for (method, path), operation in OPERATIONS.items() if operation.body
)


def test_any_frames_leave_a_socket_that_serves(settings: LocalSettings) -> None:
    """Some hundred frames of noise, then a turn; every frame that comes back is described."""

    async def body(server: Server) -> None:
        noise, sent = Noise(seed=1), 0
        while sent < 150:
            async with server.client() as client:
                with contextlib.suppress(ConnectionClosed, TimeoutError):
                    for _ in range(50):
                        await client.socket.send(noise.text())
                        sent += 1
                        await asyncio.sleep(0)
                        remember(noise, client.seen)
                    while True:
                        await asyncio.wait_for(client.receive(), 0.2)
                frame = client.socket.protocol.close_rcvd
                assert frame is None or frame.code in REFUSED
                check_events(client.seen)
                assert not failures(client.seen)
        async with server.client() as client:
            response = await client.begin("Still there?", max_output_tokens=2)
            await client.end(response)

    serve_sockets(body, settings)


def test_any_body_is_refused_or_served(settings: LocalSettings) -> None:
    """Of every operation that reads one: bytes, JSON of any kind, wrong fields."""

    async def body(site: Site) -> None:
        noise = Noise(seed=2)
        for method, path in BODIES * 6:
            path_ = path.replace("{conversation_id}", "conv_none")
            answer = await site.http.request(method, path_, content=noise.data())
            assert answer.status_code < 500, (path, answer.text)
            if answer.status_code >= 400:
                assert answer.json()["error"]["message"], path
        await site.call("GET", "/readyz")

    at_site(body, settings)


def failures(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The errors that are the server's fault."""
    return [event for event in events if event.get("error", {}).get("code") in FAILURES]


def remember(noise: Noise, events: list[dict[str, Any]]) -> None:
    """Ids that exist are worth more to noise than those that do not."""
    for event in events[-5:]:
        for part in ("session", "response"):
            found = event.get(part)
            if isinstance(found, dict) and found["id"] not in noise.known:
                noise.known = [*noise.known[-20:], found["id"]]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A process with the tiny model; after the test it is alive, well and not much larger."""
    model = tiny_model_directory(tmp_path / "model")
    with serving(model, tmp_path, "--disconnect-grace", "1", "--max-sockets", "100") as process:
        ask(process)
        before = resident_mib(process)
        yield process
        ask(process)
        assert resident_mib(process) - before < GROWTH_MIB
        assert "Traceback" not in process.stderr, process.stderr[-5000:]


def ask(process: ServerProcess) -> None:
    """One answer: the engine is alive."""
    with process.client() as client:
        body = {"input": "Hello", "max_output_tokens": 3}
        answer = client.post("/v1/responses", json=body)
        assert answer.status_code == 200, answer.text
        assert client.get("/readyz").status_code == 200


def resident_mib(process: ServerProcess) -> int:
    """Memory of the process, now."""
    for line in Path(f"/proc/{process.process.pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
    raise AssertionError("Linux tells the memory of a process")


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 3 + 300)
def test_a_socket_withstands_noise_for_long(server: ServerProcess) -> None:
    """Frames of noise from four clients for RADIXCHAT_FUZZ_SECONDS; binary ones among them."""
    until, sent, wrong = time.monotonic() + SECONDS, [0] * 4, list[str]()

    def run(seed: int) -> None:
        noise = Noise(seed)
        while time.monotonic() < until and not wrong:
            with contextlib.suppress(ConnectionClosed), socket_to(server) as socket:
                for number in range(200):
                    binary = number == 150 and seed % 2 == 0
                    socket.send(noise.data() if binary else noise.text())
                    sent[seed] += 1
                    wrong.extend(read(socket, noise))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert min(sent) > SECONDS


@contextlib.contextmanager
def socket_to(server: ServerProcess) -> Iterator[ClientConnection]:
    """A connection that knows our events; how it ended is one of the refusals."""
    url = server.url.replace("http", "ws", 1) + "/v1/responses"
    with connect(url, subprotocols=[Subprotocol(SUBPROTOCOL)], compression=None) as socket:
        try:
            yield socket
        finally:
            frame = socket.protocol.close_rcvd
            assert frame is None or frame.code in REFUSED, frame


def read(socket: ClientConnection, noise: Noise) -> list[str]:
    """Take what has come; what is the server's fault in it."""
    events = []
    with contextlib.suppress(TimeoutError):
        while True:
            events.append(json.loads(socket.recv(timeout=0.001)))
    remember(noise, events)
    return [json.dumps(event) for event in failures(events)]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 3 + 300)
def test_http_withstands_what_the_document_can_say(server: ServerProcess, tmp_path: Path) -> None:
    """schemathesis, from our own OpenAPI, for RADIXCHAT_FUZZ_SECONDS: answers are as described."""
    checks = (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    )
    program = "from schemathesis.cli import schemathesis; schemathesis()"
    ran = subprocess.run(
        [
            *(sys.executable, "-c", program, "run", f"{server.url}/openapi.json"),
            *("--checks", ",".join(checks), "--phases", "coverage,fuzzing"),
            *("--max-time", str(int(SECONDS)), "--continue-on-failure", "--no-color"),
            *("--exclude-path", "/admin/drain", "--suppress-health-check", "all"),
            *("--warnings", "off", "--request-timeout", "60", "--seed", SEED),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS * 3 + 200,
    )
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 3 + 300)
def test_http_withstands_any_bytes(server: ServerProcess) -> None:
    """Bodies that are no JSON, or are of another kind, for RADIXCHAT_FUZZ_SECONDS."""
    noise, until = Noise(seed=5), time.monotonic() + SECONDS
    with server.client() as client:
        while time.monotonic() < until:
            for method, path in BODIES:
                path_ = path.replace("{conversation_id}", "conv_none")
                answer = client.request(method, path_, content=noise.data())
                assert answer.status_code < 500, (path, answer.text)
