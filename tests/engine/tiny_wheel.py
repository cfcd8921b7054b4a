"""A small wheel with a model file in it, and a package index that never answers."""

from __future__ import annotations

import hashlib
import os
import socket
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from radixchat.engine.pinned_wheel import PinnedWheel

MEMBER = "tiny_model_wheel/tiny.gguf"


def build_wheel(folder: Path, content: bytes, compression: int = zipfile.ZIP_STORED) -> PinnedWheel:
    """Write tiny_model_wheel-1.0 with content as its model; what a store has to pin."""
    wheel = folder / "tiny_model_wheel-1.0-py3-none-any.whl"
    info = "tiny_model_wheel-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w", compression) as archive:
        archive.writestr(MEMBER, content)
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-model-wheel\nVersion: 1.0\nRequires-Dist: never\n",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return PinnedWheel(
        requirement="tiny-model-wheel==1.0",
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member=MEMBER,
        file_bytes=len(content),
        file_sha256=hashlib.sha256(content).hexdigest(),
    )


def only_from(folder: Path) -> dict[str, str]:
    """The environment in which pip looks in one folder and nowhere else."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}


@contextmanager
def silent_index() -> Iterator[tuple[dict[str, str], socket.socket]]:
    """An environment in which pip waits for ever, and the socket it connects to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        environment = {"PIP_INDEX_URL": url, "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
        yield environment, server
