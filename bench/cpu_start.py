"""From the start of a process to the first token of an answer: the product's own, and a peer's.

Ours is `radixchat chat QUESTION`, up to the first byte of the answer on standard output; it keeps
its files in a folder that goes afterwards. Files are read from the system's cache, and kernels
are compiled, once a process was started that does not count.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from radixchat.bench.command import COMMAND, own_files
from radixchat.bench.cpu_arm import ArmFailed, last_of

QUESTION = "Hi"
# Enough for a byte of text, whatever the model begins with.
MAX_TOKENS = 16


@dataclass(frozen=True, slots=True)
class StartArm:
    """A command whose first byte on standard output is its first token. environment: None is
    ours."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] | None = None

    def seconds(self) -> float:
        """Of one start; the process is run to its end. Raises ArmFailed."""
        with tempfile.TemporaryFile() as errors:
            began = time.perf_counter()
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self.environment,
            )
            try:
                assert process.stdout is not None
                first = os.read(process.stdout.fileno(), 1)
                seconds = time.perf_counter() - began
                rest, _ = process.communicate()
            except BaseException:
                process.kill()
                process.communicate()
                raise
            if process.returncode != 0 or not first:
                said = (first + rest).decode(errors="replace").strip()
                raise ArmFailed(
                    f"{self.name} ended with status {process.returncode}: "
                    f"{said[:200]} {last_of(errors)}"
                )
        return seconds


def our_start(name: str, model: str, threads: int, folder: Path) -> StartArm:
    """`radixchat chat`, with everything that it writes below `folder`. model: a path."""
    flags = ["--model", model, "--threads", str(threads), "--temperature", "0"]
    command = (*COMMAND, "chat", *flags, "--max-tokens", str(MAX_TOKENS), QUESTION)
    return StartArm(name, command, own_files(folder))


def peer_start(
    name: str, command: Sequence[str], prompt: Sequence[int], environment: Mapping[str, str]
) -> StartArm:
    """The peer's process of `cpu_peer.py`, which need not make tokens of a text."""
    return StartArm(name, (*command, json.dumps(list(prompt))), environment)
