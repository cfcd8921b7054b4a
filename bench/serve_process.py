"""`OwnServer`: a `radixchat serve` of this checkout, started for one run of `bench serve`.

Its database, its configuration and what it caches are in a folder that goes with it; it listens on
this machine only.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from radixchat.bench.command import COMMAND, own_files
from radixchat.bench.cpu_arm import last_of
from radixchat.bench.serve_answer import AskFailed
from radixchat.bench.serve_http import Address, HttpConnection
from radixchat.engine.model_store import ModelStore

_START_SECONDS = 300.0  # kernels may have to be compiled
_STOP_SECONDS = 60.0
_LOOK_SECONDS = 0.1


class OwnServer:
    """A server that is ready when the block is entered, and gone when it is left."""

    def __init__(self, model: str, flags: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="radixchat-bench-")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the block is left
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        folder = Path(self._folder.name)
        models = ModelStore.default().root.absolute()
        models.mkdir(parents=True, exist_ok=True)
        (folder / "cache").mkdir()
        (folder / "cache" / models.name).symlink_to(models)  # it finds them by the user's names
        self._process = subprocess.Popen(
            [*COMMAND, "serve", "--model", model, "--port", str(port), *flags],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            env=own_files(folder),
        )

    async def __aenter__(self) -> OwnServer:
        """Wait until it is ready. Raises AskFailed with what it said where it ends instead."""
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not await self._is_ready():
                if self._process.poll() is not None:
                    raise AskFailed(f"radixchat serve ended: {last_of(self._errors)}")
                if time.monotonic() > deadline:
                    raise AskFailed(f"radixchat serve is not ready after {_START_SECONDS:.0f} s")
                await asyncio.sleep(_LOOK_SECONDS)
        except BaseException:
            self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    async def _is_ready(self) -> bool:
        connection = HttpConnection(Address.of(self.url), None)
        try:
            status, _ = await connection.request("GET", "/readyz", b"")
        except AskFailed:  # it does not listen yet
            return False
        finally:
            await connection.close()
        return status == 200

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
        self._folder.cleanup()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port
