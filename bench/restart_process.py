"""`ChatProcess`: `radixchat chat` as a user runs it, again and again, with files of its own.

Knows the command line and its JSON, and no goal.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from radixchat.bench.command import COMMAND, own_files
from radixchat.bench.cpu_arm import ArmFailed
from radixchat.bench.restart_result import RestartTurn

ANSWER_TOKENS = 8
_BLOCK = 512  # bytes, of what getrusage counts


class ChatProcess:
    """One conversation. name: of the arm. disk_cache: as --disk-cache takes it."""

    def __init__(
        self, name: str, model: str, threads: int | None, folder: Path, disk_cache: str
    ) -> None:
        self.name = name
        self._folder = folder
        self._command = [
            *(*COMMAND, "chat", "--json", "--model", model, "--disk-cache", disk_cache),
            *("--temperature", "0", "--max-tokens", str(ANSWER_TOKENS)),
        ]
        if threads is not None:
            self._command += ["--threads", str(threads)]
        self._environment = own_files(folder)

    def chat(self, lines: Sequence[str]) -> list[RestartTurn]:
        """A conversation of these turns, to the process's end. Raises ArmFailed."""
        return self._run([], "".join(f"{line}\n" for line in lines), len(lines))

    def go_on(self, question: str) -> RestartTurn:
        """One more turn of it, in a new process. Raises ArmFailed."""
        [turn] = self._run(["-c", question], "", 1)
        return turn

    def forget_pages(self) -> bool:
        """Ask the system to forget what it has of the tier's files; whether it can be asked."""
        if not hasattr(os, "posix_fadvise"):
            return False
        for path in (self._folder / "cache").rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return True

    def _run(self, arguments: list[str], text: str, turns: int) -> list[RestartTurn]:
        began, before = time.perf_counter(), _read_from_disk()
        done = subprocess.run(
            [*self._command, *arguments],
            input=text,
            capture_output=True,
            text=True,
            env=self._environment,
            check=False,
        )
        seconds, read = time.perf_counter() - began, _read_from_disk() - before
        found = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode != 0 or len(found) != turns:
            raise ArmFailed(
                f"{self.name}: radixchat chat ended with status {done.returncode}:"
                f" {(done.stdout + done.stderr)[-500:].strip()}"
            )
        return [_turn(each, seconds, read) for each in found]


def _turn(said: dict[str, Any], seconds: float, read: int) -> RestartTurn:
    usage, timings = said["usage"], said["timings"]
    why = said["x_cache"] or {}
    return RestartTurn(
        usage["input_tokens"],
        usage["input_tokens_details"]["cached_tokens"],
        timings["cache_disk_n"],
        timings["ttft_ms"],
        said["output_text"],
        seconds,
        read,
        why.get("not_restored"),
    )


def _read_from_disk() -> int:
    """Bytes that this process's ended children had to have from a device."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock * _BLOCK
