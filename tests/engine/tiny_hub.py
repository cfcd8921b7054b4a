"""A stand-in for the Hugging Face hub on 127.0.0.1: the few requests huggingface_hub makes.

Serves the files of one folder as the model "org/tiny". Requests are recorded; a file can be made
to stop half way, or to be other bytes than announced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlparse

REPOSITORY = "org/tiny"
COMMIT = "c0ffee" * 6 + "cafe"


@dataclass(slots=True)
class TinyHub:
    """What is served, what goes wrong, and what was asked for."""

    folder: Path
    architectures: list[str] | None = None
    token: str | None = None  # without it the model is not to be seen
    cut_off: str | None = None  # a file whose transfer stops half way
    corrupt: str | None = None  # a file that arrives with one bit changed
    url: str = ""
    requests: list[str] = field(default_factory=list)

    def names(self) -> list[str]:
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return sorted(path.relative_to(self.folder).as_posix() for path in files)


@contextmanager
def serve(hub: TinyHub) -> Iterator[TinyHub]:
    """Serve until the block ends; hub.url is where."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(hub: TinyHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One request; every answer closes its connection."""

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name too
            """Say nothing: the test's output is its own."""

        def _answer(self, body: bool) -> None:
            path = unquote(urlparse(self.path).path)
            hub.requests.append(f"{self.command} {path}")
            if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
                self._send(401, b"{}", {"X-Error-Code": "RepoNotFound"}, body)
            elif path.startswith(f"/api/models/{REPOSITORY}/tree/"):
                self._send(
                    200, json.dumps([_entry(hub, n) for n in hub.names()]).encode(), {}, body
                )
            elif path.startswith(f"/api/models/{REPOSITORY}"):
                self._send(200, json.dumps(_info(hub)).encode(), {}, body)
            elif path.startswith(f"/{REPOSITORY}/resolve/{COMMIT}/"):
                self._file(path.split(COMMIT + "/", 1)[1], body)
            else:
                self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)

        def _file(self, name: str, body: bool) -> None:
            content = (hub.folder / name).read_bytes()
            headers = {"ETag": f'"{_sha(content)}"', "X-Repo-Commit": COMMIT}
            if name == hub.corrupt:
                content = bytes([content[0] ^ 1]) + content[1:]
            self._send(200, content, headers, body, cut_off=name == hub.cut_off)

        def _send(
            self,
            status: int,
            content: bytes,
            headers: dict[str, str],
            body: bool,
            cut_off: bool = False,
        ) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content[: len(content) // 2] if cut_off else content)

    return Handler


def _info(hub: TinyHub) -> dict[str, object]:
    siblings = [
        {"rfilename": e["path"], "size": e["size"], "blobId": "0", "lfs": e.get("lfs")}
        for e in (_entry(hub, name) for name in hub.names())
    ]
    config = {"architectures": hub.architectures} if hub.architectures else None
    return {"id": REPOSITORY, "sha": COMMIT, "siblings": siblings, "config": config, "tags": []}


def _entry(hub: TinyHub, name: str) -> dict[str, object]:
    content = (hub.folder / name).read_bytes()
    entry: dict[str, object] = {"type": "file", "path": name, "size": len(content), "oid": "0"}
    if name.endswith((".safetensors", ".gguf")):
        sha = _sha(content)
        size = len(content)
        entry["lfs"] = {"oid": sha, "sha256": sha, "size": size, "pointerSize": 130}
    return entry


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
