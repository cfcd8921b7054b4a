"""A process of its own that serves, for the tests of its start and its end."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

COMMAND = (sys.executable, "-c", "from radixchat.chat_cli.main import main; main()")
PATIENCE_S = 60.0


@dataclass(slots=True)
class ServerProcess:
    """`radixchat serve`, and what it says. url: once it serves."""

    process: subprocess.Popen[str]
    url: str = ""
    said: list[str] = field(default_factory=list)

    @property
    def stderr(self) -> str:
        return "".join(self.said)

    def client(self, **more: str) -> httpx.Client:
        """A client; more: headers."""
        return httpx.Client(base_url=self.url, headers=more, timeout=PATIENCE_S)

    def tell(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def code(self) -> int:
        """The exit code, once it has ended."""
        return self.process.wait(PATIENCE_S)

    def wait_for(self, text: str) -> None:
        """Return once it has said that."""
        give_up = time.monotonic() + PATIENCE_S
        while text not in self.stderr:
            assert time.monotonic() < give_up, f"never said {text!r}: {self.stderr}"
            assert self.process.poll() is None, f"has ended: {self.stderr}"
            time.sleep(0.01)


def command(*arguments: str, folder: Path) -> tuple[int, str, str]:
    """Exit code, standard output and error of a command that ends by itself."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    return done.returncode, done.stdout, done.stderr


def free_port() -> int:
    """A port that nobody listens at; the system gives it to nobody who asks for any port."""
    while True:
        port = random.randrange(10_000, 30_000)  # 32768 and more it gives away
        with contextlib.suppress(OSError), socket.socket() as listening:
            listening.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def serving(
    model: Path, folder: Path, *flags: str, command: Sequence[str] = COMMAND
) -> Iterator[ServerProcess]:
    """A server that serves the model from a database in `folder`; it is killed at the end.

    command: the beginning of the command line.
    """
    with subprocess.Popen(
        [*command, "serve", "-m", str(model), "--port", "0", "--threads", "1", *flags],
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        server = ServerProcess(process)
        assert process.stdout is not None
        assert process.stderr is not None
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


def environment(folder: Path) -> dict[str, str]:
    """Nothing of the user's: variables, configuration, conversations."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RADIXCHAT_")}
    for name in ("RADIXCHAT_CACHE_DIR", "RADIXCHAT_DISK_CACHE"):
        if name in os.environ:
            kept[name] = os.environ[name]
    return kept | {
        "RADIXCHAT_CONFIG_DIR": str(folder / "config"),
        "RADIXCHAT_DATA_DIR": str(folder / "data"),
        "PYTHONWARNINGS": "error",
    }
