"""A process of its own that serves over sockets with small buffers, for the tests of slow readers.

The system takes megabytes for a reader who reads nothing, before anybody here would notice. Its
engine is slowed, so that a token is an event on any machine: merged ones would fit in a buffer.

narrow_server.py MODEL POOL_TOKENS    prints its address, and serves until it is killed
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from radixchat.server.listener import bind
from radixchat.server.local import LocalSettings
from radixchat.server.serve import serve
from radixchat.server.serve_settings import ServeSettings
from radixchat.tests.server.server_process import PATIENCE_S, ServerProcess
from radixchat.tests.slow_steps import slowed

SEND_BUFFER = 16 << 10
STEP_S = 0.001


def narrow(sockets: list[socket.socket]) -> list[socket.socket]:
    """The same; what is accepted from them has a small buffer, too."""
    for listening in sockets:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    return sockets


@contextlib.contextmanager
def serving_narrowly(model: Path, pool_tokens: int) -> Iterator[ServerProcess]:
    """The process; it is killed at the end."""
    command = [sys.executable, "-m", __name__, str(model), str(pool_tokens)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        server = ServerProcess(process)
        assert process.stdout is not None
        listener = threading.Thread(target=lambda: server.said.extend(process.stderr or ()))
        listener.start()
        try:
            server.url = process.stdout.readline().strip()
            assert server.url, f"exit code {process.wait(PATIENCE_S)}: {server.stderr}"
            yield server
        finally:
            process.kill()
            process.wait()
            listener.join()


def main(model: str, pool_tokens: str) -> None:
    settings = ServeSettings(port=0)
    local = LocalSettings(model=model, threads=1, pool_tokens=int(pool_tokens))
    sockets = narrow(bind(settings))
    with slowed(STEP_S):
        asyncio.run(serve(local, settings, sockets, lambda serving: print(serving.url, flush=True)))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
